"""Evaluate embeddings: search in both rankings, compare hits with the labels, measure."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from surefind.embeddings import Embeddings
from surefind.engines.brute_force import Neighbours
from surefind.errors import SurefindError
from surefind.images.catalog import Catalog
from surefind.images.matches import Mask, Rows
from surefind.reports.measures import Scored, measure
from surefind.reports.protocol import Embedded, Protocol, each_once, protocol_of
from surefind.reports.result import SHOWN, Exclusion, QueryTable, Ranking
from surefind.reports.signals import (
    COSINE,
    DEPTH,
    RANKINGS,
    Signals,
    crossfit_probability,
    neighbours,
    uncertainty_signals,
)

KS = (1, 5, 10)
MOST_FOR_MAP_AT_R = 200  # neighbours that are fetched for its sake

Columns = dict[str, NDArray[Any]]


class QueryResults(NamedTuple):
    """Hits and uncertainty signals of a batch of queries in one ranking."""

    found: Neighbours
    signals: Signals


class RankingEvaluation(NamedTuple):
    """Metrics of both rankings, with the queries and images they were measured on."""

    rankings: dict[str, Ranking]
    own: Embedded  # the evaluated images without copies; rows of `protocol` refer to it
    queries: QueryTable  # the foreign ones last
    protocol: Protocol
    exclusions: tuple[Exclusion, ...]


def evaluate_rankings(
    own: Embedded,
    foreign: Embedded | None = None,
    *,
    learned: bool = True,
    ks: Sequence[int] = KS,
    depth: int | None = None,
    radius: float = 25.0,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> RankingEvaluation:
    """Search the gallery in both rankings and measure retrieval and uncertainty.

    Args:
        own: Embeddings of the labelled images; copies of an image are left out.
        foreign: Embeddings of queries that have no match in the gallery.
        learned: Whether variances are learned. If not, only the ranking by means is measured, with
            the training-free signals.
        ks: Cut-offs of the retrieval metrics.
        depth: Neighbours to fetch; by default enough for every k and for MAP@R.
        radius: Metres within which images with positions match.
        seed: Of the bootstrap.
        progress: Called with the name of each stage.

    Raises:
        SurefindError: No query has a match in the gallery.
    """
    once = each_once(own)
    try:
        protocol = protocol_of(once.catalog, radius=radius)
    except SurefindError as error:
        copies = len(own.catalog) - len(once.catalog)
        if not copies:
            raise
        raise SurefindError(
            f"{error.problem}, once {copies} copies of other images are left out",
            fix="if those differ, the model gives different images the same vector: train it again",
        ) from error
    catalog, query, gallery = once.catalog, once.embeddings, once.embeddings
    if protocol.itself is None:
        query = once.embeddings[torch.from_numpy(protocol.queries)]
        gallery = once.embeddings[torch.from_numpy(protocol.gallery)]
    most = int(protocol.n_matches.max())
    depth = depth or max(*ks, SHOWN, DEPTH, most if most <= MOST_FOR_MAP_AT_R else 0)
    progress("searching by means")
    near = neighbours("means", query, gallery, depth, itself=protocol.itself)
    foreign_near = neighbours("means", foreign.embeddings, gallery, DEPTH) if foreign else None

    def search(
        ranking: str, query: Embeddings, by_means: Neighbours, itself: Rows | None = None
    ) -> QueryResults:
        found = by_means
        if ranking != "means":
            found = neighbours(ranking, query, gallery, by_means.rows.shape[1], itself=itself)
        signals = uncertainty_signals(query, gallery, found, by_means=by_means, learned=learned)
        return QueryResults(found, signals)

    columns = _query_columns(catalog, protocol, foreign)
    measured: dict[str, Ranking] = {}
    for ranking in RANKINGS if learned else RANKINGS[:1]:
        progress(f"searching by {ranking}")
        results = [search(ranking, query, near, protocol.itself)]
        if foreign and foreign_near:
            results.append(search(ranking, foreign.embeddings, foreign_near))
        progress(f"measuring by {ranking}")
        hits = protocol.hits(results[0].found.rows.numpy())
        scored = _scored(results, hits, catalog, foreign, protocol)
        measured[ranking] = measure(scored, ks=ks, seed=seed)
        of_ranking = _ranking_columns(results, hits, scored, catalog, protocol)
        columns |= {f"{ranking}.{name}": column for name, column in of_ranking.items()}
    exclusions = once.exclusions + (foreign.exclusions if foreign else ())
    unmatched = [catalog.paths[row] for row in protocol.queries[protocol.n_matches == 0]]
    if unmatched:
        exclusions += (Exclusion.of("query without a match in the gallery", unmatched),)
    return RankingEvaluation(measured, once, QueryTable(columns), protocol, exclusions)


def _scored(
    results: Sequence[QueryResults],
    hits: Mask,
    catalog: Catalog,
    foreign: Embedded | None,
    protocol: Protocol,
) -> Scored:
    """Select the queries that have a match, and cross-fit their probabilities.

    Errors cluster by class: queries of one class share a fold and are resampled together. Without
    labels, every query is its own group.
    """
    kept = protocol.n_matches > 0
    queries = protocol.queries[kept]
    of_own, of_foreign = (
        each.codes if each.labels else np.arange(len(each))
        for each in (catalog, foreign.catalog if foreign else Catalog(catalog.root, ()))
    )
    signals = {name: signal[torch.from_numpy(kept)] for name, signal in results[0].signals.items()}
    probability = {
        name: torch.from_numpy(
            crossfit_probability(
                signal.numpy(), hits[kept, 0], of_own[queries], platt=name == COSINE
            )
        )
        for name, signal in signals.items()
    }
    difficulty = [catalog.difficulty[row] for row in queries] if catalog.difficulty else None
    return Scored(
        torch.from_numpy(hits[kept]),
        torch.from_numpy(protocol.n_matches[kept]),
        signals,
        results[1].signals if foreign else {},
        {name: fitted for name, fitted in probability.items() if not fitted.isnan().any()},
        torch.from_numpy(of_own[queries]),
        torch.from_numpy(of_foreign + len(catalog)),
        None if difficulty is None else torch.tensor(difficulty, dtype=torch.float64),
    )


def _query_columns(catalog: Catalog, protocol: Protocol, foreign: Embedded | None) -> Columns:
    """Return id, path, label and number of matches of each query, foreign ones last."""
    own = catalog.select(protocol.queries)
    both = [own, foreign.catalog] if foreign else [own]
    n = sum(map(len, both))

    def joined(column: str) -> NDArray[Any]:
        values = (getattr(each, column) or ("",) * len(each) for each in both)
        return np.array([text for each in values for text in each], dtype=object)

    return {name: joined(f"{name}s") for name in ("id", "path", "label")} | {
        "foreign": np.arange(n) >= len(own),
        "n_matches": np.pad(protocol.n_matches, (0, n - len(own))),
    }


def _ranking_columns(
    results: Sequence[QueryResults],
    hits: Mask,
    scored: Scored,
    catalog: Catalog,
    protocol: Protocol,
) -> Columns:
    """Return hits, distances, signals and probabilities in one ranking, foreign queries last."""
    n_foreign = sum(len(found.rows) for found, _ in results) - len(hits)
    paths = np.array(catalog.paths, dtype=object)[protocol.gallery]
    columns: Columns = {}
    for rank in range(min(SHOWN, hits.shape[1])):
        rows = torch.cat([found.rows[:, rank] for found, _ in results])
        distance = torch.cat([found.distance[:, rank] for found, _ in results])
        columns[f"hit_{rank + 1}"] = paths[rows.numpy()]
        columns[f"match_{rank + 1}"] = np.pad(hits[:, rank], (0, n_foreign))
        columns[f"distance_{rank + 1}"] = distance.double().numpy()
    for name in results[0].signals:
        columns[f"signal.{name}"] = torch.cat([signals[name] for _, signals in results]).numpy()
    for name, probability in scored.probability.items():
        known = np.full(len(hits) + n_foreign, np.nan)
        known[: len(hits)][protocol.n_matches > 0] = probability.numpy()
        columns[f"probability.{name}"] = known
    return columns
