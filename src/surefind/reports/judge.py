"""Judge embeddings: search, compare with the truth, measure."""

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

Asked = tuple[Neighbours, Signals]  # what one group of queries found in the gallery
Columns = dict[str, NDArray[Any]]


class Judgement(NamedTuple):
    """What was measured about embeddings."""

    rankings: dict[str, Ranking]
    own: Embedded  # the images that took part, to which the protocol refers: each once
    queries: QueryTable  # the foreign ones last
    protocol: Protocol
    exclusions: tuple[Exclusion, ...]


def judge(
    own: Embedded,
    foreign: Embedded | None = None,
    *,
    learned: bool = True,
    ks: Sequence[int] = KS,
    depth: int | None = None,
    radius: float = 25.0,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> Judgement:
    """Search, compare with the truth, and measure, in both orders of the gallery.

    `learned` is False where the variance says nothing: then there is one order, and only the
    training-free signals. `depth` neighbours are fetched; unless given, enough for k and for MAP@R.
    Copies of an image are left out. `progress` is told what comes next.
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
    catalog, asking, gallery = once.catalog, once.embeddings, once.embeddings
    if protocol.itself is None:
        asking = once.embeddings[torch.from_numpy(protocol.queries)]
        gallery = once.embeddings[torch.from_numpy(protocol.gallery)]
    most = int(protocol.n_matches.max())
    depth = depth or max(*ks, SHOWN, DEPTH, most if most <= MOST_FOR_MAP_AT_R else 0)
    progress("searching by means")
    near = neighbours("means", asking, gallery, depth, itself=protocol.itself)
    foreign_near = neighbours("means", foreign.embeddings, gallery, DEPTH) if foreign else None

    def ask(
        ranking: str, query: Embeddings, by_means: Neighbours, itself: Rows | None = None
    ) -> Asked:
        found = by_means
        if ranking != "means":
            found = neighbours(ranking, query, gallery, by_means.rows.shape[1], itself=itself)
        signals = uncertainty_signals(query, gallery, found, by_means=by_means, learned=learned)
        return found, signals

    columns = _query_columns(catalog, protocol, foreign)
    measured: dict[str, Ranking] = {}
    for ranking in RANKINGS if learned else RANKINGS[:1]:
        progress(f"searching by {ranking}")
        asked = [ask(ranking, asking, near, protocol.itself)]
        if foreign and foreign_near:
            asked.append(ask(ranking, foreign.embeddings, foreign_near))
        progress(f"measuring by {ranking}")
        hits = protocol.hits(asked[0][0].rows.numpy())
        scored = _scored(asked, hits, catalog, foreign, protocol)
        measured[ranking] = measure(scored, ks=ks, seed=seed)
        of_ranking = _ranking_columns(asked, hits, scored, catalog, protocol)
        columns |= {f"{ranking}.{name}": column for name, column in of_ranking.items()}
    exclusions = once.exclusions + (foreign.exclusions if foreign else ())
    lonely = [catalog.paths[row] for row in protocol.queries[protocol.n_matches == 0]]
    if lonely:
        exclusions += (Exclusion.of("query without a match in the gallery", lonely),)
    return Judgement(measured, once, QueryTable(columns), protocol, exclusions)


def _scored(
    asked: Sequence[Asked],
    hits: Mask,
    catalog: Catalog,
    foreign: Embedded | None,
    protocol: Protocol,
) -> Scored:
    """Keep the queries that have a match.

    Queries of one class are right or wrong together: they stay together when a probability is
    fitted, and when queries are resampled for an interval. Without labels, each is its own group.
    """
    kept = protocol.n_matches > 0
    queries = protocol.queries[kept]
    of_own, of_foreign = (
        each.codes if each.labels else np.arange(len(each))
        for each in (catalog, foreign.catalog if foreign else Catalog(catalog.root, ()))
    )
    signals = {name: signal[torch.from_numpy(kept)] for name, signal in asked[0][1].items()}
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
        asked[1][1] if foreign else {},
        {name: fitted for name, fitted in probability.items() if not fitted.isnan().any()},
        torch.from_numpy(of_own[queries]),
        torch.from_numpy(of_foreign + len(catalog)),
        None if difficulty is None else torch.tensor(difficulty, dtype=torch.float64),
    )


def _query_columns(catalog: Catalog, protocol: Protocol, foreign: Embedded | None) -> Columns:
    """The names of each query, own ones first."""
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
    asked: Sequence[Asked], hits: Mask, scored: Scored, catalog: Catalog, protocol: Protocol
) -> Columns:
    """The columns of one ranking, foreign queries last."""
    n_foreign = sum(len(found.rows) for found, _ in asked) - len(hits)
    paths = np.array(catalog.paths, dtype=object)[protocol.gallery]
    columns: Columns = {}
    for rank in range(min(SHOWN, hits.shape[1])):
        rows = torch.cat([found.rows[:, rank] for found, _ in asked])
        distance = torch.cat([found.distance[:, rank] for found, _ in asked])
        columns[f"hit_{rank + 1}"] = paths[rows.numpy()]
        columns[f"match_{rank + 1}"] = np.pad(hits[:, rank], (0, n_foreign))
        columns[f"distance_{rank + 1}"] = distance.double().numpy()
    for name in asked[0][1]:
        columns[f"signal.{name}"] = torch.cat([signals[name] for _, signals in asked]).numpy()
    for name, probability in scored.probability.items():
        known = np.full(len(hits) + n_foreign, np.nan)
        known[: len(hits)][protocol.n_matches > 0] = probability.numpy()
        columns[f"probability.{name}"] = known
    return columns
