"""Search results of pymilvus as arrays."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Hits(NamedTuple):
    """What one query found, nearest first."""

    ids: list[str]
    distance: NDArray[np.float32]  # (n,)
    vectors: NDArray[np.float32]  # (n, width)
    var: NDArray[np.float64]  # (n,)


def hits_of(found: Any, width: int) -> list[Hits]:
    """One per query; `found` is what `MilvusClient.search` returns."""
    counts = [len(hits) for hits in found]
    vectors = _together(found)
    if vectors is None:
        plain = [list(hits) for hits in found]
        vectors = np.array([hit["entity"]["vector"] for hits in plain for hit in hits], np.float32)
    else:
        plain = [list(list.__iter__(hits)) for hits in found]  # vectors stay where they are
    parts = np.split(vectors.reshape(sum(counts), width), np.cumsum(counts)[:-1])
    return [
        Hits(
            ids=[str(hit["id"]) for hit in hits],
            distance=np.array([hit["distance"] for hit in hits], np.float32),
            vectors=part,
            var=np.array([hit["entity"]["var"] for hit in hits], np.float64),
        )
        for hits, part in zip(plain, parts, strict=True)
    ]


def _together(found: Any) -> NDArray[np.float32] | None:
    """The vectors of all hits of all queries, if pymilvus shows them.

    They come in one piece, and are given out hit by hit as lists, which takes 80 times longer.
    """
    for field in getattr(found[0], "lazy_field_data", ()) if found else ():
        if field.field_name == "vector":
            return np.array(field.vectors.float_vector.data, np.float32)
    return None
