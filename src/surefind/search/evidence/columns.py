"""Label-free evidence that a hit is a match: one column per idea, each with its direction."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from surefind.search.evidence.seen import Numbers, Seen

SMALLEST = 1e-6  # of the distance to the farthest neighbour; what is nearer is a duplicate
TINY = float(np.finfo(np.float64).tiny)
LARGEST = 50.0  # standard deviations
ROUNDING = 1e-5  # of distances in float32, relative: the last neighbour is one all the same
SOURCES = ("distances", "density", "overlap", "variance", "doubt", "disagreement")


class _Logs:
    """What columns share: logarithms of distances, so that products become sums."""

    def __init__(self, seen: Seen) -> None:
        farthest = np.maximum(seen.profile[:, -1], seen.around[..., -1].max(axis=1))
        least = np.maximum(farthest * SMALLEST, TINY)[:, None]
        self.seen = seen
        self.distance: Numbers = np.log(np.maximum(seen.distance, least))
        self.profile: Numbers = np.log(np.maximum(seen.profile, least))
        self.around: Numbers = np.log(np.maximum(seen.around, least[..., None]))
        hits, self.width = seen.between.shape[1:]
        self.others = np.arange(self.width) != np.arange(hits)[:, None]  # (H, K), but itself

    def of_query(self, values: Numbers) -> Numbers:
        """The same for all hits of a query, (Q,) to (Q, H)."""
        return np.broadcast_to(values[:, None], self.distance.shape)


class Column(NamedTuple):
    """Values (Q, H), and which way they may speak, all others being equal."""

    source: str
    direction: int  # 1: more of it can only speak for a match; -1: only against; 0: either
    values: Callable[[_Logs], Numbers]


def evidence(seen: Seen, names: Sequence[str]) -> Numbers:
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


def _rank(logs: _Logs) -> Numbers:
    hits = logs.distance.shape[1]
    return np.broadcast_to(np.log(np.arange(1, hits + 1)), logs.distance.shape)


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


def _expected(logs: _Logs) -> Numbers:
    return np.asarray(np.log(np.maximum(logs.seen.expected, TINY)))


def _within(logs: _Logs) -> Numbers:
    """How likely the hit is within the reach of its own tenth neighbour: z of that chance."""
    reach = logs.seen.around[..., min(10, logs.width) - 1]
    z = (reach - logs.seen.expected) / np.maximum(logs.seen.std, TINY)
    return np.asarray(np.arcsinh(np.clip(z, -LARGEST, LARGEST)))


def _ahead(logs: _Logs) -> Numbers:
    """How likely the hit is nearer than the neighbour behind it: z of that chance, nearly."""
    z = (np.exp(_next(logs)) - logs.seen.distance) / np.maximum(logs.seen.std, TINY)
    return np.asarray(np.arcsinh(np.clip(z, 0, LARGEST)))


COLUMNS: dict[str, Column] = {
    "distance": Column("distances", -1, lambda logs: logs.distance),
    "next": Column("distances", 1, _next),
    "behind": Column("distances", -1, lambda logs: logs.distance - logs.profile[:, :1]),
    "query_to_5": Column("distances", 0, partial(_query_to, 5)),
    "query_to_10": Column("distances", 0, partial(_query_to, 10)),
    "query_to_20": Column("distances", 0, partial(_query_to, 20)),
    "thinning": Column("distances", 0, _thinning),
    "rank": Column("distances", -1, _rank),
    "hit_to_1": Column("density", 0, partial(_hit_to, 1)),
    "hit_to_5": Column("density", 0, partial(_hit_to, 5)),
    "hit_to_10": Column("density", 0, partial(_hit_to, 10)),
    "hit_to_20": Column("density", 0, partial(_hit_to, 20)),
    "rank_back": Column("density", -1, _rank_back),
    "shared_5": Column("overlap", 1, partial(_shared, 5)),
    "shared_10": Column("overlap", 1, partial(_shared, 10)),
    "shared_20": Column("overlap", 1, partial(_shared, 20)),
    "alike": Column("overlap", 1, _alike),
    "query_var": Column("variance", -1, lambda logs: logs.of_query(np.log(logs.seen.query_var))),
    "hit_var": Column("variance", -1, lambda logs: np.log(logs.seen.var)),
    "expected": Column("variance", -1, _expected),
    "within": Column("variance", 1, _within),
    "ahead": Column("variance", 1, _ahead),
    "doubt": Column("doubt", -1, lambda logs: logs.of_query(logs.seen.doubt[:, 0])),
    "near_doubt": Column("doubt", -1, lambda logs: logs.of_query(logs.seen.near_doubt)),
    "disagreement": Column("disagreement", -1, lambda logs: logs.of_query(logs.seen.doubt[:, 1])),
}
