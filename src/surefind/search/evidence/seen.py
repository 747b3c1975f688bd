"""What a search saw around queries and their hits: all that evidence is made of."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NEIGHBOURS = 20  # K, of a query and of a hit, which say how crowded it is there
ROUNDING = 1e-4  # of a distance that was stored and one that was not, relative

Numbers = NDArray[np.float64]


class Seen(NamedTuple):
    """Q queries with H hits each, and K neighbours around both; squared distances of means."""

    distance: Numbers  # (Q, H), query to hit
    profile: Numbers  # (Q, K), query to its nearest neighbours, ascending
    between: Numbers  # (Q, H, K), hit to the query's neighbours; 0 to itself
    around: Numbers  # (Q, H, K), hit to its own neighbours, ascending; without the query
    expected: Numbers  # (Q, H), expected distance of query and hit
    std: Numbers  # (Q, H), of that distance
    query_var: Numbers  # (Q,)
    var: Numbers  # (Q, H)
    doubt: Numbers  # (Q, 2), what learned heads say of the query: log variance, disagreement
    near_doubt: Numbers  # (Q,), the mean log variance of its nearest neighbours

    def at(self, rows: NDArray[np.generic]) -> "Seen":
        """Some of the queries."""
        return Seen(*(column[rows] for column in self))

    @staticmethod
    def joined(parts: list["Seen"]) -> "Seen":
        return Seen(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def without_query(around: Numbers, distance: Numbers) -> Numbers:
    """The neighbours of hits, (..., K + 1) to (..., K), when the query is in the gallery itself.

    The query is the neighbour at its distance (...,); where there is none, it is too far away to
    be one of them, or too vague.
    """
    gap = np.abs(around - distance[..., None])
    there = gap.min(axis=-1) <= ROUNDING * distance
    own = np.where(there, gap.argmin(axis=-1), around.shape[-1] - 1)
    places = np.arange(around.shape[-1] - 1)
    return np.take_along_axis(around, places + (places >= own[..., None]), axis=-1)
