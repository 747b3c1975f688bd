"""From the nearest rows of an engine to what was seen around a query and its hits."""

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import Embeddings
from surefind.engines.knn import Nearest
from surefind.engines.space import Space
from surefind.functional import hit_distances
from surefind.functional.hits import HitDistances
from surefind.search.evidence.seen import NEIGHBOURS, Numbers, Seen, without_query


def see(
    space: Space,
    query: Embeddings,
    near: Nearest,
    *,
    around: Numbers,
    doubt: Numbers,
    near_doubt: Numbers,
    distances: HitDistances | None = None,
    inside: NDArray[np.bool_] | None = None,
) -> Seen:
    """Of queries with K or more rows each, nearest first; `around` is of the hits, (Q, H, K).

    `distances` are those of the rows, where they are known already. Queries that are `inside` the
    gallery, (Q,), are seen as if they were not; `around` needs K + 1 columns for that.
    """
    near = near.at((slice(None), slice(NEIGHBOURS)))
    hits = around.shape[1]
    if distances is None:
        distances = distances_to(space, query, near)
    distance = distances.distance[:, :NEIGHBOURS].numpy()
    means = space.means(near.vectors)
    around_hits = around[..., :NEIGHBOURS]
    if inside is not None:
        without = without_query(around[inside], distance[inside, :hits])
        around_hits = around_hits.copy()
        around_hits[inside] = without
    away = means - means.mean(axis=1, keepdims=True)  # small: digits are kept
    return Seen(
        distance=distance[:, :hits],
        profile=np.sort(distance, axis=1),
        between=_between(away, hits),
        around=around_hits,
        expected=distances.expected.numpy()[:, :hits],
        std=distances.std.numpy()[:, :hits],
        query_var=space.var(query),
        var=near.var[:, :hits],
        doubt=doubt,
        near_doubt=near_doubt,
    )


def distances_to(space: Space, query: Embeddings, near: Nearest) -> HitDistances:
    """From queries to the rows they found, (Q, n) each."""
    gallery = space.embeddings(near.vectors.reshape(-1, space.width), near.var.reshape(-1))
    return hit_distances(query, gallery, per_query=near.keys.shape[1])


def _between(away: NDArray[np.floating], hits: int) -> Numbers:
    """Squared distances from each hit to all neighbours, (Q, H, K)."""
    products = (away @ away.transpose(0, 2, 1)).astype(np.float64)
    squares = np.einsum("qkk->qk", products)
    between = squares[:, :hits, None] + squares[:, None] - 2 * products[:, :hits]
    return np.asarray(np.maximum(between, 0, out=between))
