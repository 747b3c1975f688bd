"""The nearest rows, in as many requests as their answers need."""

import numpy as np
from numpy.typing import NDArray

from surefind.engines.engine import LONGEST_ID, Found
from surefind.engines.milvus.decoding import Hits
from surefind.engines.milvus.driver import Collection
from surefind.engines.milvus.vector_index import asking

LONGEST_ANSWER = 60_000_000  # bytes; the server sends 64 MiB at most
EASY_ANSWER = 16_000_000  # bytes to ask for where there is a choice
AT_ONCE = 16_384  # the most queries, and the most neighbours, that Milvus takes


def most(width: int) -> int:
    """The largest k whose answer can be sent."""
    return min(AT_ONCE, LONGEST_ANSWER // _bytes_per_hit(width))


def search(
    collection: Collection, vectors: NDArray[np.float32], k: int, *, expression: str
) -> Found:
    width = vectors.shape[1]
    at_once = max(1, min(AT_ONCE, EASY_ANSWER // (k * _bytes_per_hit(width))))
    hits: list[Hits] = []
    for start in range(0, len(vectors), at_once):
        some = vectors[start : start + at_once]
        hits += collection.search(some, k, expression=expression, asking=asking(k))
    return _found(hits, width)


def _found(hits: list[Hits], width: int) -> Found:
    shape = (len(hits), max((len(one.ids) for one in hits), default=0))
    found = Found(
        keys=np.full(shape, "", dtype=object),
        distance=np.full(shape, np.inf, dtype=np.float32),
        vectors=np.zeros((*shape, width), dtype=np.float32),
        var=np.ones(shape, dtype=np.float64),
    )
    for row, one in enumerate(hits):
        count = len(one.ids)
        found.keys[row, :count] = one.ids
        found.distance[row, :count] = one.distance
        found.vectors[row, :count] = one.vectors
        found.var[row, :count] = one.var
    return found


def _bytes_per_hit(width: int) -> int:
    return 4 * width + LONGEST_ID + 32
