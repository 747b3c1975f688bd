"""What was seen around a query and its hits, and label-free evidence that a hit is a match.

Evidence has one column per idea, each with its direction.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import Embeddings
from surefind.engines.knn import Nearest
from surefind.engines.space import Space
from surefind.functional import hit_distances
from surefind.functional.distance import HitDistances

NEIGHBOURS = 20  # K, of a query and of a hit, which say how crowded it is there
STORED = 1e-4  # between a distance that was stored and one that was not, relative

SMALLEST = 1e-6  # of the distance to the farthest neighbour; what is nearer is a duplicate
TINY = float(np.finfo(np.float64).tiny)
LARGEST = 50.0  # standard deviations
ROUNDING = 1e-5  # of distances in float32, relative: the last neighbour is one all the same
SOURCES = ("distances", "density", "overlap", "variance", "log_var")


Numbers = NDArray[np.float64]


class Neighbourhood(NamedTuple):
    """Q queries with H hits each, and K neighbours around both; squared distances of means."""

    distance: Numbers  # (Q, H), query to hit
    profile: Numbers  # (Q, K), query to its nearest neighbours, ascending
    between: Numbers  # (Q, H, K), hit to the query's neighbours; 0 to itself
    around: Numbers  # (Q, H, K), hit to its own neighbours, ascending; without the query
    expected: Numbers  # (Q, H), expected distance of query and hit
    std: Numbers  # (Q, H), of that distance
    query_var: Numbers  # (Q,)
    var: Numbers  # (Q, H)
    log_var: Numbers  # (Q,), log variance of the query by learned heads
    neighbour_log_var: Numbers  # (Q,), the mean log variance of its nearest neighbours

    def at(self, rows: NDArray[np.generic]) -> "Neighbourhood":
        """Some of the queries."""
        return Neighbourhood(*(column[rows] for column in self))

    @staticmethod
    def joined(parts: Sequence["Neighbourhood"]) -> "Neighbourhood":
        return Neighbourhood(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def without_query(around: Numbers, distance: Numbers) -> Numbers:
    """The neighbours of hits, (..., K + 1) to (..., K), when the query is in the gallery itself.

    The query is the neighbour at its distance (...,); where there is none, it is too far away to
    be one of them, or too vague.
    """
    gap = np.abs(around - distance[..., None])
    there = gap.min(axis=-1) <= STORED * distance
    own = np.where(there, gap.argmin(axis=-1), around.shape[-1] - 1)
    places = np.arange(around.shape[-1] - 1)
    return np.take_along_axis(around, places + (places >= own[..., None]), axis=-1)


def see(
    space: Space,
    query: Embeddings,
    near: Nearest,
    *,
    around: Numbers,
    log_var: Numbers,
    neighbour_log_var: Numbers,
    distances: HitDistances | None = None,
    inside: NDArray[np.bool_] | None = None,
) -> Neighbourhood:
    """Of queries with K rows each, nearest first; `around` is of these, (Q, K, K).

    `distances` are those of the rows (and more), where they are known. Queries that are `inside`
    the gallery, (Q,), are seen as if they were not; `around` needs K + 1 columns for that.
    """
    if distances is None:
        distances = distances_to(space, query, near)
    distance = distances.distance[:, :NEIGHBOURS].numpy()
    means = space.means(near.vectors)
    around_hits = around[..., :NEIGHBOURS]
    if inside is not None:
        without = without_query(around[inside], distance[inside])
        around_hits = around_hits.copy()
        around_hits[inside] = without
    away = means - means.mean(axis=1, keepdims=True)  # small: digits are kept
    products = (away @ away.transpose(0, 2, 1)).astype(np.float64)
    squares = np.einsum("qkk->qk", products)
    between = squares[:, :, None] + squares[:, None] - 2 * products
    return Neighbourhood(
        distance=distance,
        profile=np.sort(distance, axis=1),
        between=np.maximum(between, 0),
        around=around_hits,
        expected=distances.expected.numpy()[:, :NEIGHBOURS],
        std=distances.std.numpy()[:, :NEIGHBOURS],
        query_var=space.var(query),
        var=near.var,
        log_var=log_var,
        neighbour_log_var=neighbour_log_var,
    )


def distances_to(space: Space, query: Embeddings, near: Nearest) -> HitDistances:
    """From queries to the rows they found, (Q, n) each."""
    return hit_distances(query, embeddings_of(space, near), per_query=near.keys.shape[1])


def embeddings_of(space: Space, near: Nearest) -> Embeddings:
    """Of the rows that were found, query by query."""
    return space.embeddings(near.vectors.reshape(-1, space.width), near.var.reshape(-1))


class _Logs:
    """What columns share: logarithms of distances, so that products become sums."""

    def __init__(self, seen: Neighbourhood) -> None:
        farthest = np.maximum(seen.profile[:, -1], seen.around[..., -1].max(axis=1))
        least = np.maximum(farthest * SMALLEST, TINY)[:, None]
        self.seen = seen
        self.distance: Numbers = np.log(np.maximum(seen.distance, least))
        self.profile: Numbers = np.log(np.maximum(seen.profile, least))
        self.around: Numbers = np.log(np.maximum(seen.around, least[..., None]))
        self.expected: Numbers = np.log(np.maximum(seen.expected, TINY))
        hits, self.width = seen.between.shape[1:]
        self.rank = np.broadcast_to(np.log(np.arange(1, hits + 1)), seen.distance.shape)
        self.others = np.arange(self.width) != np.arange(hits)[:, None]  # (H, K), but itself

    def of_query(self, values: Numbers) -> Numbers:
        """The same for all hits of a query, (Q,) to (Q, H)."""
        return np.broadcast_to(values[:, None], self.distance.shape)


class EvidenceColumn(NamedTuple):
    """Values (Q, H), and which way they may speak, all others being equal."""

    source: str
    direction: int  # 1: more of it can only speak for a match; -1: only against; 0: either
    values: Callable[[_Logs], Numbers]


def evidence(seen: Neighbourhood, names: Sequence[str]) -> Numbers:
    """The named columns of every hit, (Q, H, F)."""
    logs = _Logs(seen)
    return np.stack([COLUMNS[name].values(logs) for name in names], axis=-1)


def _query_to(rank: int, logs: _Logs) -> Numbers:
    """How far the query's neighbour of that rank is."""
    return logs.of_query(logs.profile[:, min(rank, logs.width) - 1])


def _hit_to(rank: int, logs: _Logs) -> Numbers:
    """How far the hit's own neighbour of that rank is."""
    return logs.around[..., min(rank, logs.width) - 1]


def _next(logs: _Logs) -> Numbers:
    """How far the first neighbour behind the hit is."""
    hits = logs.distance.shape[1]
    behind = np.minimum(np.arange(1, hits + 1), logs.width - 1)
    return np.asarray(np.maximum(logs.profile[:, behind], logs.distance))


def _thinning(logs: _Logs) -> Numbers:
    """How much farther the last neighbour is than the others: an inverse local dimension."""
    return logs.of_query((logs.profile[:, -1:] - logs.profile).mean(axis=1))


def _rank_back(logs: _Logs) -> Numbers:
    """How many of the hit's neighbours are nearer to it than the query is."""
    nearer = (logs.around < logs.distance[..., None]).sum(axis=-1)
    return np.asarray(np.log1p(nearer))


def _shared(count: int, logs: _Logs) -> Numbers:
    """The share of the query's nearest that are also among the hit's nearest."""
    count = min(count, logs.width)
    radius = logs.seen.around[..., count - 1, None] * (1 + ROUNDING)
    both = (logs.seen.between[..., :count] <= radius) & logs.others[:, :count]
    return np.asarray(both.mean(axis=-1))


def _alike(logs: _Logs) -> Numbers:
    """Are the same neighbours near to query and hit? The correlation of their distances."""
    others = logs.others.astype(np.float64)
    count = np.maximum(others.sum(axis=1), 1)[:, None]

    def centred(values: Numbers) -> Numbers:
        away = values - (values * others).sum(axis=-1, keepdims=True) / count
        return np.asarray(away * others)

    own = centred(np.broadcast_to(logs.seen.profile[:, None], logs.seen.between.shape))
    its = centred(logs.seen.between)
    size = np.sqrt((own**2).sum(axis=-1) * (its**2).sum(axis=-1))
    return np.asarray((own * its).sum(axis=-1) / np.where(size > 0, size, 1.0))


def _within(logs: _Logs) -> Numbers:
    """How likely the hit is within the reach of its own tenth neighbour: z of that chance."""
    reach = logs.seen.around[..., min(10, logs.width) - 1]
    z = (reach - logs.seen.expected) / np.maximum(logs.seen.std, TINY)
    return np.asarray(np.arcsinh(np.clip(z, -LARGEST, LARGEST)))


def _ahead(logs: _Logs) -> Numbers:
    """How likely the hit is nearer than the neighbour behind it: z of that chance, nearly."""
    z = (np.exp(_next(logs)) - logs.seen.distance) / np.maximum(logs.seen.std, TINY)
    return np.asarray(np.arcsinh(np.clip(z, 0, LARGEST)))


COLUMNS: dict[str, EvidenceColumn] = {
    "distance": EvidenceColumn("distances", -1, lambda logs: logs.distance),
    "next": EvidenceColumn("distances", 1, _next),
    "behind": EvidenceColumn("distances", -1, lambda logs: logs.distance - logs.profile[:, :1]),
    "query_to_5": EvidenceColumn("distances", 0, partial(_query_to, 5)),
    "query_to_10": EvidenceColumn("distances", 0, partial(_query_to, 10)),
    "query_to_20": EvidenceColumn("distances", 0, partial(_query_to, 20)),
    "thinning": EvidenceColumn("distances", 0, _thinning),
    "rank": EvidenceColumn("distances", -1, lambda logs: logs.rank),
    "hit_to_1": EvidenceColumn("density", 0, partial(_hit_to, 1)),
    "hit_to_5": EvidenceColumn("density", 0, partial(_hit_to, 5)),
    "hit_to_10": EvidenceColumn("density", 0, partial(_hit_to, 10)),
    "hit_to_20": EvidenceColumn("density", 0, partial(_hit_to, 20)),
    "rank_back": EvidenceColumn("density", -1, _rank_back),
    "shared_5": EvidenceColumn("overlap", 1, partial(_shared, 5)),
    "shared_10": EvidenceColumn("overlap", 1, partial(_shared, 10)),
    "shared_20": EvidenceColumn("overlap", 1, partial(_shared, 20)),
    "alike": EvidenceColumn("overlap", 1, _alike),
    "query_var": EvidenceColumn(
        "variance", -1, lambda logs: logs.of_query(np.log(logs.seen.query_var))
    ),
    "hit_var": EvidenceColumn("variance", -1, lambda logs: np.log(logs.seen.var)),
    "expected": EvidenceColumn("variance", -1, lambda logs: logs.expected),
    "within": EvidenceColumn("variance", 1, _within),
    "ahead": EvidenceColumn("variance", 1, _ahead),
    "log_var": EvidenceColumn("log_var", -1, lambda logs: logs.of_query(logs.seen.log_var)),
    "neighbour_log_var": EvidenceColumn(
        "log_var", -1, lambda logs: logs.of_query(logs.seen.neighbour_log_var)
    ),
}
