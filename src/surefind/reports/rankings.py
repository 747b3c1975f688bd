"""Evaluate embeddings: who searches whom, hits in both rankings, metrics."""

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from surefind.confidence.neighbours import first_copies
from surefind.embeddings import Embeddings
from surefind.encoders.image_encoder import ImageEncoder
from surefind.engines.brute_force import Neighbours
from surefind.errors import SurefindError
from surefind.images.catalog import Catalog
from surefind.images.digest import file_digests
from surefind.images.matches import ByPosition, Mask, Matches, Rows, matches_of
from surefind.reports.measures import Scored, measure
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
from surefind.storage import make_writable, write_whole

KS = (1, 5, 10)
MOST_FOR_MAP_AT_R = 200  # neighbours that are fetched for its sake

Columns = dict[str, NDArray[Any]]
Results = list[tuple[Neighbours, Signals]]  # in one ranking: of own queries, of foreign ones


class Protocol(NamedTuple):
    """Rows of one catalog as queries and gallery; a query does not search itself."""

    queries: Rows
    gallery: Rows
    itself: Rows | None  # row of each query in the gallery; None: disjoint
    n_matches: Rows  # of each query, in the gallery
    matches: Matches
    description: str

    def hits(self, places: Rows, queries: Rows | None = None) -> Mask:
        """Return which of the found (Q, K) places in the gallery match their query."""
        queries = self.queries if queries is None else queries
        return self.matches.match_pairs(queries[:, None], self.gallery[places])


def protocol_of(catalog: Catalog, *, radius: float = 25.0) -> Protocol:
    """Return the queries that the catalog names, else every image as query against all others."""
    matches = matches_of(catalog, radius)
    rows = np.arange(len(catalog))
    if catalog.queries:
        is_query = np.array(catalog.queries)
        queries, gallery, itself = rows[is_query], rows[~is_query], None
        who = f"{len(queries):,} queries search {len(gallery):,} other images"
    else:
        queries = gallery = itself = rows
        who = f"each of {len(rows):,} images searches all the others"
    if not len(queries) or len(gallery) < 2:
        raise SurefindError(
            f"{catalog.root}: {len(queries)} queries and a gallery of {len(gallery)}",
            fix="evaluation needs at least one query and two images to search",
        )
    n_matches = matches.count(queries, gallery)
    by_position = isinstance(matches, ByPosition)
    if not n_matches.any():
        fix = "check the labels: no two images share one"
        if by_position:
            fix = "check the positions (degrees or metres?), or allow a larger --radius"
        elif catalog.queries:
            fix = "check the labels: queries and gallery have none in common"
        problem = f"none of the {len(queries)} queries has a match in the gallery"
        raise SurefindError(f"{catalog.root}: {problem}", fix=fix)
    what = f"taken within {radius:g} m of each other" if by_position else "of the same label"
    return Protocol(queries, gallery, itself, n_matches, matches, f"{who}; images {what} match")


class Embedded(NamedTuple):
    """Embeddings of the readable images of a catalog, and why others were left out."""

    embeddings: Embeddings
    catalog: Catalog
    exclusions: tuple[Exclusion, ...] = ()


def embed_catalog(
    encoder: ImageEncoder,
    catalog: Catalog,
    *,
    kept_in: Path | None = None,
    max_bad_share: float = 0.05,
    progress: Callable[[int], None] = lambda _: None,
) -> Embedded:
    """Encode a catalog, or read its embeddings from the cache folder `kept_in`."""
    if not len(catalog):
        raise SurefindError(f"{catalog.root}: no images")
    kept = None if kept_in is None else kept_in / f"{_key(encoder, catalog)}.safetensors"
    embeddings: Embeddings | None = None
    rejected: list[tuple[int, str]] = []
    if kept is not None:
        with suppress(SurefindError, OSError, ValueError):  # not there, or not readable any more
            rejected = json.loads(kept.with_suffix(".json").read_text())
            embeddings = Embeddings.load(kept)
    if embeddings is None:
        found = encoder.encode_all(catalog.files, max_bad_share=max_bad_share, progress=progress)
        embeddings, rejected = found.embeddings, [(r.row, r.reason) for r in found.rejected]
        if kept is not None:
            make_writable(kept.parent)
            write_whole(kept.with_suffix(".json"), json.dumps(rejected).encode())
            embeddings.save(kept)
    progress(len(catalog))
    reasons: dict[str, list[str]] = {}
    for row, reason in rejected:
        reasons.setdefault(f"cannot be read: {reason}", []).append(catalog.paths[row])
    exclusions = tuple(Exclusion.of(reason, paths) for reason, paths in reasons.items())
    readable = np.setdiff1d(np.arange(len(catalog)), [row for row, _ in rejected])
    return Embedded(embeddings, catalog.select(readable) if rejected else catalog, exclusions)


def each_once(given: Embedded) -> Embedded:
    """Remove copies of other images, by content or by vector; of a query and its copies, the query
    stays.
    """
    catalog, embeddings = given.catalog, given.embeddings
    order = np.argsort([not is_query for is_query in catalog.queries] or [0] * len(catalog), kind="stable")
    digests = file_digests([catalog.file(row) for row in order])
    means = embeddings.mean[order].detach().cpu().numpy()
    labels = [catalog.labels[row] for row in order] if catalog.labels else ()
    first = order[first_copies(means, digests, labels=labels)]
    copies = np.sort(order[first != order])
    if not len(copies):
        return given
    once = np.setdiff1d(order, copies)
    left_out = Exclusion.of("copy of another image", [catalog.paths[row] for row in copies])
    return Embedded(embeddings[once.tolist()], catalog.select(once), (*given.exclusions, left_out))


def _key(encoder: ImageEncoder, catalog: Catalog) -> str:
    """Return the cache key: model, runtime, and the state of the files."""
    digest = hashlib.sha256(encoder.fingerprint.encode())
    if encoder.runtime != "torch":  # whose embeddings have no mark of their own
        digest.update(f"\0{encoder.runtime}".encode())
    for file in catalog.files:
        state = file.stat() if file.exists() else None
        digest.update(f"\0{file}\0{state and (state.st_size, state.st_mtime_ns)}".encode())
    return digest.hexdigest()[:32]


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

    Returns:
        Metrics of both rankings, a table of the queries, and what was left out.

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
    ) -> tuple[Neighbours, Signals]:
        found = by_means
        if ranking != "means":
            found = neighbours(ranking, query, gallery, by_means.rows.shape[1], itself=itself)
        return found, uncertainty_signals(query, gallery, found, by_means=by_means, learned=learned)

    columns = _query_columns(catalog, protocol, foreign)
    measured: dict[str, Ranking] = {}
    for ranking in RANKINGS if learned else RANKINGS[:1]:
        progress(f"searching by {ranking}")
        results = [search(ranking, query, near, protocol.itself)]
        if foreign and foreign_near:
            results.append(search(ranking, foreign.embeddings, foreign_near))
        progress(f"measuring by {ranking}")
        hits = protocol.hits(results[0][0].rows.numpy())
        scored = _scored(results, hits, catalog, foreign, protocol)
        measured[ranking] = measure(scored, ks=ks, seed=seed)
        of_ranking = _ranking_columns(results, hits, scored, catalog, protocol)
        columns |= {f"{ranking}.{name}": column for name, column in of_ranking.items()}
    exclusions = once.exclusions + (foreign.exclusions if foreign else ())
    unmatched = [catalog.paths[row] for row in protocol.queries[protocol.n_matches == 0]]
    if unmatched:
        exclusions += (Exclusion.of("query without a match in the gallery", unmatched),)
    return RankingEvaluation(measured, once, QueryTable(columns), protocol, exclusions)


def _scored(results: Results, hits: Mask, catalog: Catalog, foreign: Embedded | None, protocol: Protocol) -> Scored:
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
    own_signals, *foreign_signals = (signals for _, signals in results)
    signals = {name: signal[torch.from_numpy(kept)] for name, signal in own_signals.items()}
    probability = {
        name: torch.from_numpy(
            crossfit_probability(signal.numpy(), hits[kept, 0], of_own[queries], platt=name == COSINE)
        )
        for name, signal in signals.items()
    }
    difficulty = [catalog.difficulty[row] for row in queries] if catalog.difficulty else None
    return Scored(
        torch.from_numpy(hits[kept]),
        torch.from_numpy(protocol.n_matches[kept]),
        signals,
        foreign_signals[0] if foreign else {},
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


def _ranking_columns(results: Results, hits: Mask, scored: Scored, catalog: Catalog, protocol: Protocol) -> Columns:
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
    for name in results[0][1]:
        columns[f"signal.{name}"] = torch.cat([signals[name] for _, signals in results]).numpy()
    for name, probability in scored.probability.items():
        known = np.full(len(hits) + n_foreign, np.nan)
        known[: len(hits)][protocol.n_matches > 0] = probability.numpy()
        columns[f"probability.{name}"] = known
    return columns
