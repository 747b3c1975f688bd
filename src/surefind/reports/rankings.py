"""Evaluate embeddings: who searches whom, hits in both rankings, metrics with bootstrap intervals."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefind import metrics
from surefind.confidence.neighbours import first_copies
from surefind.embeddings import Embeddings
from surefind.encoders.image_encoder import ImageEncoder
from surefind.errors import SurefindError
from surefind.images.catalog import Catalog
from surefind.images.loader import file_digests
from surefind.images.matches import ByPosition, Mask, Matches, Rows, matches_of
from surefind.metrics.intervals import Estimate, bootstrap_all
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
COVERAGES = (0.8, 0.9, 0.95)
ERROR_AT = 5  # uncertainty is correlated with the error 1 - AP@5
RETRIEVAL = "retrieval"  # group of statistics; the others are definitions and signals
BY_VARIANCE = ("equal_width", "equal_mass")  # definitions of the calibration error
RESAMPLES = 1000
MANY = 4000  # with more queries than these, intervals come from
SOME = 2500  # of them, in classes drawn at random,
LEAST = 100  # classes at least, or all
RESAMPLES_OF_SOME = 200

Statistic = Callable[[Tensor], Tensor]  # of the counts of resamples
Statistics = dict[tuple[str, str], Statistic]  # by group and name
Estimates = dict[tuple[str, str], Estimate]


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
        raise SurefindError(f"{catalog.root}: none of the {len(queries)} queries has a match in the gallery", fix=fix)
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
    progress: Callable[[int], None] = lambda _: None,
) -> Embedded:
    """Encode a catalog, or read its embeddings from the cache folder `kept_in`."""
    if not len(catalog):
        raise SurefindError(f"{catalog.root}: no images")
    kept, embeddings = None, None
    rejected: list[tuple[int, str]] = []
    if kept_in is not None:
        key = hashlib.sha256(f"{encoder.fingerprint}\0{encoder.runtime}".encode())
        for file in catalog.files:
            state = file.stat() if file.exists() else None
            key.update(f"\0{file}\0{state and (state.st_size, state.st_mtime_ns)}".encode())
        kept = kept_in / f"{key.hexdigest()[:32]}.safetensors"
        with suppress(SurefindError, OSError, ValueError):  # not there, or not readable any more
            rejected = json.loads(kept.with_suffix(".json").read_text())
            embeddings = Embeddings.load(kept)
    if embeddings is None:
        found = encoder.encode_all(catalog.files, progress=progress)
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
    digests = file_digests([f"{catalog.root}/{catalog.paths[row]}" for row in order])  # a Path each takes long
    means = _rows_of(embeddings, order).numpy()
    labels = [catalog.labels[row] for row in order] if catalog.labels else ()
    first = order[first_copies(means, digests, labels=labels)]
    copies = np.sort(order[first != order])
    if not len(copies):
        return given
    once = np.setdiff1d(order, copies)
    left_out = Exclusion.of("copy of another image", [catalog.paths[row] for row in copies])
    return Embedded(embeddings[once.tolist()], catalog.select(once), (*given.exclusions, left_out))


def _rows_of(embeddings: Embeddings, rows: Rows) -> Embeddings:
    """Select rows; consecutive ones without a copy."""
    consecutive = len(rows) > 0 and bool((np.diff(rows) == 1).all())
    return embeddings[slice(int(rows[0]), int(rows[-1]) + 1) if consecutive else torch.from_numpy(rows)]


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
    catalog, query, gallery, itself = once.catalog, once.embeddings, once.embeddings, protocol.itself
    if itself is None:
        query, gallery = (_rows_of(query, rows) for rows in (protocol.queries, protocol.gallery))
    catalogs, n_own = [catalog.select(protocol.queries)], len(protocol.queries)
    if foreign is not None:
        catalogs.append(foreign.catalog)
        query = type(query).cat([query, foreign.embeddings])
        itself = None if itself is None else np.pad(itself, (0, len(foreign.catalog)), constant_values=-1)
    n_foreign = len(query) - n_own
    is_foreign = np.arange(len(query)) >= n_own
    n_matches = np.pad(protocol.n_matches, (0, n_foreign))
    kept = n_matches > 0
    # Errors cluster by class: its queries share a fold and are resampled together.
    codes = [each.codes if each.labels else np.arange(len(each)) for each in (catalog, *catalogs[1:])]
    groups = np.concatenate([codes[0][protocol.queries], *(foreigners + len(catalog) for foreigners in codes[1:])])
    columns: dict[str, NDArray[Any]] = {
        name: np.array([text for each in catalogs for text in getattr(each, f"{name}s") or [""] * len(each)], object)
        for name in ("id", "path", "label")
    }
    columns |= {"foreign": is_foreign, "n_matches": n_matches}
    difficulty = None
    if catalog.difficulty:
        difficulty = torch.from_numpy(np.pad(np.array(catalog.difficulty)[protocol.queries], (0, n_foreign)))
    most, paths = int(n_matches.max()), np.array(catalog.paths, dtype=object)[protocol.gallery]
    depth = depth or max(*ks, SHOWN, DEPTH, most if most <= MOST_FOR_MAP_AT_R else 0)
    near = neighbours("means", query, gallery, depth, itself=itself)
    measured, tensor = dict[str, Ranking](), torch.from_numpy
    for ranking in RANKINGS if learned else RANKINGS[:1]:
        progress(f"searching by {ranking}")
        found = near if ranking == "means" else neighbours(ranking, query, gallery, depth, itself=itself)
        signals = uncertainty_signals(query, gallery, found, by_means=near, learned=learned)
        progress(f"measuring by {ranking}")
        hits = np.pad(protocol.hits(found.rows[:n_own].numpy()), ((0, n_foreign), (0, 0)))
        probability = _probabilities(signals, hits[:, 0], groups, kept)
        scored = Scored(
            tensor(hits), tensor(n_matches), tensor(groups), tensor(is_foreign), signals, probability, difficulty
        )
        measured[ranking] = measure(scored.at(torch.from_numpy(kept | is_foreign)), ks=ks, seed=seed)
        for rank in range(min(SHOWN, hits.shape[1])):
            columns[f"{ranking}.hit_{rank + 1}"] = paths[found.rows[:, rank].numpy()]
            columns[f"{ranking}.match_{rank + 1}"] = hits[:, rank]
            columns[f"{ranking}.distance_{rank + 1}"] = found.distance[:, rank].double().numpy()
        columns |= {f"{ranking}.signal.{name}": signal.numpy() for name, signal in signals.items()}
        columns |= {f"{ranking}.probability.{name}": values.numpy() for name, values in probability.items()}
    exclusions = once.exclusions + (foreign.exclusions if foreign else ())
    if unmatched := [catalog.paths[row] for row in protocol.queries[protocol.n_matches == 0]]:
        exclusions += (Exclusion.of("query without a match in the gallery", unmatched),)
    return RankingEvaluation(measured, once, QueryTable(columns), protocol, exclusions)


def _probabilities(signals: Signals, right: Mask, groups: Rows, kept: Mask) -> Signals:
    """Cross-fit the probability of the kept queries, nan for others; leave out what cannot be fitted."""
    found = {}
    for name, signal in signals.items():
        values = np.full(len(right), np.nan)
        values[kept] = crossfit_probability(signal.numpy()[kept], right[kept], groups[kept], platt=name == COSINE)
        if not np.isnan(values[kept]).any():
            found[name] = torch.from_numpy(values)
    return found


class Scored(NamedTuple):
    """Hits and signals of Q queries in one ranking, the foreign ones last."""

    hits: Tensor  # (Q, K) bool, nearest first
    n_matches: Tensor  # (Q,)
    groups: Tensor  # (Q,) classes, or every query its own: what intervals resample
    foreign: Tensor  # (Q,) bool
    signals: Signals  # (Q,) each
    probability: Mapping[str, Tensor]  # (Q,) cross-fitted, by signal; those that could be fitted
    difficulty: Tensor | None = None  # (Q,) where the data knows how corrupted an image is

    def at(self, rows: Tensor) -> Self:
        """Select queries."""
        return self._replace(
            **{name: getattr(self, name)[rows] for name in ("hits", "n_matches", "groups", "foreign")},
            signals={name: signal[rows] for name, signal in self.signals.items()},
            probability={name: values[rows] for name, values in self.probability.items()},
            difficulty=None if self.difficulty is None else self.difficulty[rows],
        )

    def sample(self, share: float, *, seed: int) -> Self:
        """Draw the queries of a random share of the groups, of own ones and of foreign ones."""
        generator = torch.Generator().manual_seed(seed)
        kinds = (self.groups[~self.foreign].unique(), self.groups[self.foreign].unique())
        drawn = [its[torch.randperm(len(its), generator=generator)[: round(share * len(its))]] for its in kinds]
        return self.at(torch.isin(self.groups, torch.cat(drawn)))


def measure(scored: Scored, *, ks: Sequence[int], seed: int = 0) -> Ranking:
    """Return the metrics of one ranking with intervals over groups of queries."""
    found = estimate_all(lambda part: _of_own(part, ks), scored.at(~scored.foreign), seed=seed)
    if scored.foreign.any():
        found |= estimate_all(_of_foreign, scored, seed=seed)
    by_group: dict[str, dict[str, Estimate]] = {name: {} for name in scored.signals}
    for (group, name), estimate in found.items():
        by_group.setdefault(group, {})[name] = estimate
    return Ranking(
        retrieval=by_group[RETRIEVAL],
        ece={name: by_group[name] for name in BY_VARIANCE if name in by_group},
        signals={name: by_group[name] for name in scored.signals},
    )


def resamples_of(n: int) -> int:
    """Return how often n queries are resampled."""
    return RESAMPLES if n <= MANY else RESAMPLES_OF_SOME


def estimate_all(statistics_of: Callable[[Scored], Statistics], scored: Scored, *, seed: int) -> Estimates:
    """Return statistics with 95 % intervals from common resamples of whole groups of queries.

    With n > 4000 queries, a random share of the groups is resampled (about 2500 queries, at least
    100 groups of each kind) and the deviations are scaled by the root of that share.
    """
    statistics, n = statistics_of(scored), len(scored.groups)
    resample = partial(bootstrap_all, resamples=resamples_of(n), seed=seed)
    kinds = (scored.groups[scored.foreign == kind] for kind in scored.foreign.unique())
    share = share_resampled(n, *(len(groups.unique()) for groups in kinds))
    if share < 1:
        part = scored.sample(share, seed=seed)
        of_part = statistics_of(part)
        if of_part.keys() == statistics.keys():  # otherwise it misses a rare event
            found: Estimates = {}
            for name, around in resample(of_part, len(part.groups), groups=part.groups).items():
                value = float(statistics[name](torch.ones(1, n)))
                low, high = (value + sqrt(share) * (end - around.value) for end in (around.low, around.high))
                found[name] = Estimate(value, low, high)
            return found
    return resample(statistics, n, groups=scored.groups)


def share_resampled(queries: int, *groups: int) -> float:
    """Return the share of the groups of each kind that intervals come from.

    >>> share_resampled(8000, 98), share_resampled(50_000, 10_000)
    (1.0, 0.05)
    """
    if queries <= MANY:
        return 1.0
    return min(1.0, max(SOME / queries, *(LEAST / count for count in groups)))


def _of_own(scored: Scored, ks: Sequence[int]) -> Statistics:
    """Return the statistics that are defined for these queries."""
    ap = {k: metrics.average_precision_at_k(scored.hits, scored.n_matches, k) for k in (*ks, ERROR_AT)}
    statistics: Statistics = {
        **{(RETRIEVAL, f"R@{k}"): _mean(metrics.hit_at_k(scored.hits, k)) for k in ks},
        **{(RETRIEVAL, f"mAP@{k}"): _mean(ap[k]) for k in ks},
        **{(RETRIEVAL, f"P@{k}"): _mean(metrics.precision_at_k(scored.hits, k)) for k in ks},
    }
    if int(scored.n_matches.max()) <= scored.hits.shape[1]:
        at_r = metrics.average_precision_at_r(scored.hits, scored.n_matches)
        statistics[RETRIEVAL, "MAP@R"] = _mean(at_r)
    ece = metrics.expected_calibration_error
    if "query_var" in scored.signals:  # the paper takes it for a confidence
        var = scored.signals["query_var"]
        for definition, k in product(BY_VARIANCE, ks):
            statistics[definition, f"ECE@{k}"] = weighted(ece, var, ap[k], definition=definition)
    error, right = 1 - ap[ERROR_AT], scored.hits[:, 0]
    for name, signal in scored.signals.items():
        statistics |= _of_signal(name, signal, right)
        if _vary(signal, error):
            statistics[name, "spearman"] = weighted(metrics.spearman, signal, error)
        if scored.difficulty is not None and _vary(signal, scored.difficulty):
            statistics[name, "difficulty"] = weighted(metrics.spearman, signal, scored.difficulty)
    for name, probability in scored.probability.items():
        statistics[name, "ece"] = weighted(ece, probability, right.double(), definition="probability")
        statistics[name, "brier"] = _mean(metrics.brier_score(probability, right))
        statistics[name, "nll"] = _mean(metrics.negative_log_likelihood(probability, right))
    return statistics


def _of_signal(name: str, signal: Tensor, right: Tensor) -> Statistics:
    """Return statistics of a signal as a detector of wrong top hits."""
    wrong = ~right

    @lru_cache(maxsize=1)  # several statistics share it
    def profile(weights: Tensor) -> metrics.RiskProfile:
        return metrics.risk_profile(signal, wrong, COVERAGES, weights=weights)

    statistics: Statistics = {
        (name, "aurc"): lambda weights: profile(weights).area,
        (name, "e_aurc"): lambda weights: profile(weights).excess,
    }
    for number, share in enumerate(COVERAGES):
        statistics[name, f"risk_{round(100 * share)}"] = partial(lambda n, weights: profile(weights).risks[n], number)
    if wrong.any() and right.any():
        statistics[name, "auroc"] = weighted(metrics.auroc, signal, wrong)
        statistics[name, "aupr"] = weighted(metrics.aupr, signal, wrong)
    return statistics


def _of_foreign(scored: Scored) -> Statistics:
    """Return statistics of each signal as a detector of foreign queries."""
    return {
        (name, what): weighted(metric, signal, scored.foreign)
        for name, signal in scored.signals.items()
        for what, metric in (("ood_auroc", metrics.auroc), ("ood_aupr", metrics.aupr), ("fpr95", metrics.fpr_at_tpr))
    }


def _mean(values: Tensor) -> Statistic:
    return lambda weights: (weights.double() @ values.double()) / weights.sum(1).double()


def weighted(metric: Callable[..., Any], *arguments: Tensor, **options: str) -> Statistic:
    return lambda weights: metric(*arguments, weights=weights, **options)


def _vary(*columns: Tensor) -> bool:
    """Return whether no column is constant."""
    return all(bool((values != values[0]).any()) for values in columns)
