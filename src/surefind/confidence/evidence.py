"""Neighbourhood of a query and its hits, and label-free evidence that a hit is a match."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import Embeddings
from surefind.engines.base import Space
from surefind.engines.knn import Nearest
from surefind.functional.ranking import hit_distances

NEIGHBOURS = 20  # K: neighbours of a query and of a hit that evidence is computed from
STORED = 1e-4  # relative difference of a distance stored in float32 and one computed now
SMALLEST = 1e-6  # relative to the farthest neighbour; distances below it are duplicates
TINY = float(np.finfo(np.float64).tiny)
LARGEST = 50.0  # standard deviations at which z values are clipped
ROUNDING = 1e-5  # relative tolerance for float32 distances, so that the K-th neighbour counts
SOURCES = ("distances", "density", "overlap", "variance", "log_var")

Numbers = NDArray[np.float64]


class Neighbourhood(NamedTuple):
    """Q queries with H hits each and K neighbours of both; squared distances of means."""

    distance: Numbers  # (Q, H), query to hit
    profile: Numbers  # (Q, K), query to its nearest neighbours, ascending
    between: Numbers  # (Q, H, K), hit to the query's neighbours; 0 to itself
    hit_knn_distances: Numbers  # (Q, H, K), hit to its own neighbours, ascending; not the query
    expected: Numbers  # (Q, H), expected distance of query and hit
    std: Numbers  # (Q, H), of that distance
    query_var: Numbers  # (Q,)
    var: Numbers  # (Q, H)
    log_var: Numbers  # (Q,), log variance of the query, by learned heads
    neighbour_log_var: Numbers  # (Q,), the mean log variance of its nearest neighbours

    def at(self, rows: NDArray[np.generic]) -> "Neighbourhood":
        """Select queries."""
        return Neighbourhood(*(column[rows] for column in self))

    @staticmethod
    def joined(parts: Sequence["Neighbourhood"]) -> "Neighbourhood":
        return Neighbourhood(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def without_query(knn_distances: Numbers, distance: Numbers) -> Numbers:
    """Remove the query from the neighbours of hits, (..., K + 1) to (..., K).

    The query is the neighbour at its own distance (...,). Where there is none, the query is not
    among the neighbours, and the last one is dropped.
    """
    gap = np.abs(knn_distances - distance[..., None])
    found = gap.min(axis=-1) <= STORED * distance
    own = np.where(found, gap.argmin(axis=-1), knn_distances.shape[-1] - 1)
    places = np.arange(knn_distances.shape[-1] - 1)
    return np.take_along_axis(knn_distances, places + (places >= own[..., None]), axis=-1)


def collect_neighbourhood(
    space: Space,
    query_var: Numbers,
    near: Nearest,
    *,
    hit_knn_distances: Numbers,
    log_var: Numbers,
    neighbour_log_var: Numbers,
    inside: NDArray[np.bool_] | None = None,
) -> Neighbourhood:
    """Return the neighbourhood of queries with K rows each, nearest first.

    `hit_knn_distances` has the distances from these rows to their own neighbours, (Q, K, K + 1), from
    which queries that are `inside` the gallery, (Q,), are removed.
    """
    distance = near.distance
    expected, std = hit_distances(distance, query_var, near.var, dim=space.dim, family=space.family)
    means = space.means(near.vectors)
    knn_distances = hit_knn_distances[..., :NEIGHBOURS]
    if inside is not None:
        without = without_query(hit_knn_distances, distance)
        knn_distances = np.where(inside[:, None, None], without, knn_distances)
    away = means - means.mean(axis=1, keepdims=True)  # centred: the products keep their digits
    products = (away @ away.transpose(0, 2, 1)).astype(np.float64)
    squares = np.einsum("qkk->qk", products)
    between = squares[:, :, None] + squares[:, None] - 2 * products
    return Neighbourhood(
        distance=distance,
        profile=np.sort(distance, axis=1),
        between=np.maximum(between, 0),
        hit_knn_distances=knn_distances,
        expected=expected,
        std=std,
        query_var=query_var,
        var=near.var,
        log_var=log_var,
        neighbour_log_var=neighbour_log_var,
    )


def embeddings_of(space: Space, near: Nearest) -> Embeddings:
    """Embeddings of the nearest rows, query by query."""
    return space.embeddings(near.vectors.reshape(-1, space.width), near.var.reshape(-1))


class _Logs:
    """Logarithms of distances, which the columns share."""

    def __init__(self, neighbourhood: Neighbourhood) -> None:
        farthest = np.maximum(neighbourhood.profile[:, -1], neighbourhood.hit_knn_distances[..., -1].max(axis=1))
        least = np.maximum(farthest * SMALLEST, TINY)[:, None]
        self.neighbourhood = neighbourhood
        self.distance: Numbers = np.log(np.maximum(neighbourhood.distance, least))
        self.profile: Numbers = np.log(np.maximum(neighbourhood.profile, least))
        self.knn_distances: Numbers = np.log(np.maximum(neighbourhood.hit_knn_distances, least[..., None]))
        self.expected: Numbers = np.log(np.maximum(neighbourhood.expected, TINY))
        hits, self.width = neighbourhood.between.shape[1:]
        self.rank = np.broadcast_to(np.log(np.arange(1, hits + 1)), neighbourhood.distance.shape)
        self.others = np.arange(self.width) != np.arange(hits)[:, None]  # (H, K), without the hit

    def of_query(self, values: Numbers) -> Numbers:
        """Repeat a value of each query for all its hits, (Q,) to (Q, H)."""
        return np.broadcast_to(values[:, None], self.distance.shape)

    def query_to(self, rank: int) -> Numbers:
        """Distance from the query to its neighbour of this rank."""
        return self.of_query(self.profile[:, min(rank, self.width) - 1])

    def hit_to(self, rank: int) -> Numbers:
        """Distance from the hit to its own neighbour of this rank."""
        return self.knn_distances[..., min(rank, self.width) - 1]


class EvidenceColumn(NamedTuple):
    """Source, sign constraint and values (Q, H) of one kind of evidence."""

    source: str
    direction: int  # 1: larger values favour a match; -1: a non-match; 0: either
    values: Callable[[_Logs], Numbers]


def evidence(neighbourhood: Neighbourhood, names: Sequence[str]) -> Numbers:
    """Return the named columns for every hit, (Q, H, F)."""
    logs = _Logs(neighbourhood)
    return np.stack([COLUMNS[name].values(logs) for name in names], axis=-1)


def _next(logs: _Logs) -> Numbers:
    """Distance from the query to the next neighbour after the hit."""
    hits = logs.distance.shape[1]
    behind = np.minimum(np.arange(1, hits + 1), logs.width - 1)
    return np.asarray(np.maximum(logs.profile[:, behind], logs.distance))


def _shared(count: int, logs: _Logs) -> Numbers:
    """Share of the query's nearest neighbours that are also the hit's."""
    count = min(count, logs.width)
    radius = logs.neighbourhood.hit_knn_distances[..., count - 1, None] * (1 + ROUNDING)
    both = (logs.neighbourhood.between[..., :count] <= radius) & logs.others[:, :count]
    return np.asarray(both.mean(axis=-1))


def _distance_profile_correlation(logs: _Logs) -> Numbers:
    """Correlation of the distances from query and hit to the same neighbours."""
    others = logs.others.astype(np.float64)
    count = np.maximum(others.sum(axis=1), 1)[:, None]

    def centred(values: Numbers) -> Numbers:
        away = values - (values * others).sum(axis=-1, keepdims=True) / count
        return np.asarray(away * others)

    own = centred(np.broadcast_to(logs.neighbourhood.profile[:, None], logs.neighbourhood.between.shape))
    its = centred(logs.neighbourhood.between)
    size = np.sqrt((own**2).sum(axis=-1) * (its**2).sum(axis=-1))
    return np.asarray((own * its).sum(axis=-1) / np.where(size > 0, size, 1.0))


def _within(logs: _Logs) -> Numbers:
    """z of P(query nearer to the hit than the hit's tenth neighbour)."""
    radius = logs.neighbourhood.hit_knn_distances[..., min(10, logs.width) - 1]
    z = (radius - logs.neighbourhood.expected) / np.maximum(logs.neighbourhood.std, TINY)
    return np.asarray(np.arcsinh(np.clip(z, -LARGEST, LARGEST)))


def _ahead(logs: _Logs) -> Numbers:
    """Approximate z of P(hit nearer than the next neighbour)."""
    z = (np.exp(_next(logs)) - logs.neighbourhood.distance) / np.maximum(logs.neighbourhood.std, TINY)
    return np.asarray(np.arcsinh(np.clip(z, 0, LARGEST)))


COLUMNS: dict[str, EvidenceColumn] = {
    "distance": EvidenceColumn("distances", -1, lambda logs: logs.distance),
    "next": EvidenceColumn("distances", 1, _next),
    "behind": EvidenceColumn("distances", -1, lambda logs: logs.distance - logs.profile[:, :1]),
    "query_to_5": EvidenceColumn("distances", 0, lambda logs: logs.query_to(5)),
    "query_to_10": EvidenceColumn("distances", 0, lambda logs: logs.query_to(10)),
    "query_to_20": EvidenceColumn("distances", 0, lambda logs: logs.query_to(20)),
    # mean log ratio of the last distance to the others
    "inverse_local_dimension": EvidenceColumn(
        "distances", 0, lambda logs: logs.of_query((logs.profile[:, -1:] - logs.profile).mean(axis=1))
    ),
    "rank": EvidenceColumn("distances", -1, lambda logs: logs.rank),
    "hit_to_1": EvidenceColumn("density", 0, lambda logs: logs.hit_to(1)),
    "hit_to_5": EvidenceColumn("density", 0, lambda logs: logs.hit_to(5)),
    "hit_to_10": EvidenceColumn("density", 0, lambda logs: logs.hit_to(10)),
    "hit_to_20": EvidenceColumn("density", 0, lambda logs: logs.hit_to(20)),
    # rank of the query among the hit's neighbours
    "reverse_rank": EvidenceColumn(
        "density", -1, lambda logs: np.log1p((logs.knn_distances < logs.distance[..., None]).sum(axis=-1))
    ),
    "shared_5": EvidenceColumn("overlap", 1, lambda logs: _shared(5, logs)),
    "shared_10": EvidenceColumn("overlap", 1, lambda logs: _shared(10, logs)),
    "shared_20": EvidenceColumn("overlap", 1, lambda logs: _shared(20, logs)),
    "distance_profile_correlation": EvidenceColumn("overlap", 1, _distance_profile_correlation),
    "query_var": EvidenceColumn("variance", -1, lambda logs: logs.of_query(np.log(logs.neighbourhood.query_var))),
    "hit_var": EvidenceColumn("variance", -1, lambda logs: np.log(logs.neighbourhood.var)),
    "expected": EvidenceColumn("variance", -1, lambda logs: logs.expected),
    "within": EvidenceColumn("variance", 1, _within),
    "ahead": EvidenceColumn("variance", 1, _ahead),
    "log_var": EvidenceColumn("log_var", -1, lambda logs: logs.of_query(logs.neighbourhood.log_var)),
    "neighbour_log_var": EvidenceColumn(
        "log_var", -1, lambda logs: logs.of_query(logs.neighbourhood.neighbour_log_var)
    ),
}
