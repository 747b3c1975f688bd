"""Copies of a query: detect them, and search without them.

A copy has the content or the vector of the query, and no other label. Every model finds it, so it
is no evidence. An equal vector with another label is an error of the model and stays.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import Embeddings
from surefind.engines.base import Engine, Keys
from surefind.engines.knn import NUMBERS_AT_ONCE, Nearest, nearest

ROUNDING = 1e-10  # of the squared lengths; see `is_copy`
GROWTH = 4  # factor by which more rows are fetched if too few remain
PROJECTIONS = 8
REACH = 2.1 * ROUNDING**0.5  # directions and logarithms of lengths of copies differ by less
ROWS_AT_ONCE = 4096

Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]
Vectors = NDArray[np.floating]


def is_copy(between: Numbers, length: Numbers, other: Numbers) -> Flags:
    r"""Whether vectors of these squared lengths are equal but for rounding; arguments broadcast.

        |q - x|^2 <= 1e-10 (|q|^2 + |x|^2)

    The same picture encoded in a batch of another size differs by some 1e-13 of the squared
    lengths (float32, ResNet-50); different pictures by 1e-3, even if the network is untrained.
    """
    return np.asarray(between <= ROUNDING * (length + other))


def copies_among(near: Nearest, query: Numbers) -> Flags:
    """Return which nearest rows equal their query (Q, D); (Q, K)."""
    length = np.einsum("qd,qd->q", query, query)[:, None]  # of a copy too
    return np.asarray(is_copy(near.distance, length, length) & np.isfinite(near.ranked_by))


def nearest_others(
    engine: Engine, query: Embeddings, k: int, left_out: Callable[[Rows, Nearest], Flags]
) -> tuple[Nearest, list[Keys]]:
    """Return the k nearest rows of each query that are not left out, and the keys left out.

    `left_out` takes row numbers of queries and their nearest rows (Q, K), and returns (Q, K).
    More rows are fetched for queries with fewer than k others.
    """
    parts: list[tuple[Rows, Nearest]] = []
    copies: list[Keys] = [np.empty(0)] * len(query)
    rows, fetch = np.arange(len(query)), k + 1
    while len(rows):
        step = max(1, NUMBERS_AT_ONCE // (fetch * engine.space.width))
        short = []
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            near = nearest(engine, query[some.tolist()], fetch, ranking=engine.space.ranking)
            out = left_out(some, near)
            others = near._replace(ranked_by=np.where(out, np.inf, near.ranked_by))
            done = (others.found >= k) | (near.found < fetch)
            parts.append((some[done], others.at(done).first(k)))
            for place in np.flatnonzero(done):
                copies[some[place]] = near.keys[place, out[place]]
            short.append(some[~done])
        rows, fetch = np.concatenate(short), fetch * GROWTH
    if not parts:
        return Nearest.nothing(engine.space.width), copies
    order = np.argsort(np.concatenate([some for some, _ in parts]))
    return Nearest.joined([near for _, near in parts]).at(order), copies


def first_copies(means: Vectors, digests: Sequence[str] = (), *, labels: Sequence[str] = ()) -> Rows:
    """Return for each row of (N, D) the first row that it is a copy of, else itself; (N,).

    By vector (`is_copy`), and by digest where given ("" is none). Rows with other labels are no
    copies of each other.
    """
    from scipy.sparse import coo_array  # type: ignore[import-untyped]  # not for a search
    from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

    if not len(means):
        return np.empty(0, np.int64)
    rows = np.arange(len(means))
    links = [first_equal(means), _first_near(means)]
    if len(digests):
        links.append(_first_alike(np.array([d or str(row) for row, d in enumerate(digests)])))
    graph = coo_array(
        (np.ones(len(links) * len(rows), bool), (np.tile(rows, len(links)), np.concatenate(links))),
        shape=(len(rows), len(rows)),
    )
    _, alike = connected_components(graph, directed=False)
    if len(labels):
        alike = alike.astype(np.int64) * len(rows) + _first_alike(np.array(labels))
    return _first_alike(alike)


def first_equal(means: Vectors) -> Rows:
    """Return for each row of (N, D) the first row with equal values, (N,)."""
    whole = np.ascontiguousarray(means) + 0  # -0.0 is 0.0
    return _first_alike(whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1])))[:, 0])


def _first_alike(values: NDArray[np.generic]) -> Rows:
    """Return for each row the first row with the same value."""
    _, first, place = np.unique(values, return_index=True, return_inverse=True)
    return np.asarray(first[place], np.int64)


def _first_near(means: Vectors) -> Rows:
    r"""Return for each row the first row that it equals but for rounding.

    Candidates come from a KD-tree over coordinates in which no two rows are farther apart:
    projections of the directions, and the logarithms of the lengths.
    """
    from scipy.spatial import cKDTree  # type: ignore[import-untyped]

    near = np.arange(len(means))
    rows = np.unique(first_equal(means))
    random = np.random.default_rng(0).normal(size=(means.shape[1], PROJECTIONS))
    axes = np.linalg.qr(random)[0]
    parts, squares = [], []
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = means[rows[start : start + ROWS_AT_ONCE]].astype(np.float64)
        squares.append(np.square(some).sum(axis=1))
        size = np.sqrt(np.maximum(squares[-1], np.finfo(np.float64).tiny))
        parts.append(np.column_stack([some @ axes / size[:, None], np.log(size)]))
    points, length = np.concatenate(parts), np.concatenate(squares)
    tree = cKDTree(points)
    tied = np.isfinite(tree.query(points, k=2, distance_upper_bound=REACH)[0][:, 1])
    for place in np.flatnonzero(tied):
        if near[rows[place]] != rows[place]:
            continue
        ball = np.array(tree.query_ball_point(points[place], REACH))
        ball = ball[near[rows[ball]] == rows[ball]]
        away = means[rows[ball]].astype(np.float64) - means[rows[place]]
        equal = is_copy(np.square(away).sum(axis=1), length[ball], length[place])
        near[rows[ball[equal]]] = rows[place]
    return near
