"""Search that looks at every vector of a segment, where it lies in the mapped file."""

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.engines.embedded.library import faiss
from surefind.engines.embedded.selecting import Selection

GATHERED_FROM = 4  # queries at once; of chosen rows faiss itself multiplies no matrices
GATHERED_BYTES = 64 * 2**20

Vectors = NDArray[np.float32]


class Nearest(NamedTuple):
    """The nearest rows of one segment for each query; infinitely far where there are fewer."""

    distance: NDArray[np.float32]  # (Q, k)
    rows: NDArray[np.int64]  # (Q, k)


def preface(rows: int, width: int) -> bytes:
    """The bytes that faiss writes before the vectors of a flat index.

    With them in the file it can use the mapped vectors as they are, without reading them.
    """
    empty = faiss.IndexFlatL2(width)
    empty.ntotal = rows
    written = bytes(faiss.serialize_index(empty))
    return written[:-8] + struct.pack("<q", rows * width)


class Flat:
    """All vectors of a segment."""

    def __init__(self, vectors: Vectors, *, before: NDArray[np.uint8]) -> None:
        """`before` is what the file has in front of the vectors."""
        self.vectors = vectors  # which also keeps the file mapped
        self.index = _viewed(vectors, before)  # None if this faiss cannot

    def search(self, query: Vectors, k: int, chosen: Selection | None = None) -> Nearest:
        if chosen is None:
            return found_by_faiss(*self._search_all(query, min(k, len(self.vectors))))
        if len(query) < GATHERED_FROM and self.index is not None:
            only = faiss.SearchParameters(sel=chosen.selector())
            return found_by_faiss(*self.index.search(query, min(k, chosen.count), params=only))
        return self._search_gathered(query, min(k, chosen.count), chosen)

    def stored(self) -> Any:
        """A faiss index of these vectors; a copy only where faiss cannot use them as they are."""
        if self.index is None:
            self.index = faiss.IndexFlatL2(self.vectors.shape[1])
            self.index.add(self.vectors)
        return self.index

    def _search_all(self, query: Vectors, k: int) -> Any:
        return (
            faiss.knn(query, self.vectors, k) if self.index is None else self.index.search(query, k)
        )

    def _search_gathered(self, query: Vectors, k: int, chosen: Selection) -> Nearest:
        """Copies the chosen rows together: much quicker than faiss's own way for many queries."""
        rows = np.flatnonzero(chosen.mask)
        step = max(k, GATHERED_BYTES // self.vectors[0].nbytes)
        found = []
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            near = found_by_faiss(*faiss.knn(query, self.vectors[block], min(k, len(block))))
            found.append(near._replace(rows=block[near.rows]))
        return nearest_of(found, k)


def nearest_of(found: list[Nearest], k: int) -> Nearest:
    """The k nearest of several; equal ones in the order given."""
    if len(found) == 1:
        return found[0]
    distance = np.concatenate([each.distance for each in found], axis=1)
    rows = np.concatenate([each.rows for each in found], axis=1)
    order = np.argsort(distance, axis=1, kind="stable")[:, :k]
    return Nearest(np.take_along_axis(distance, order, 1), np.take_along_axis(rows, order, 1))


def found_by_faiss(distance: NDArray[np.float32], rows: NDArray[np.int64]) -> Nearest:
    """As faiss gives it, which marks what it did not find with row -1."""
    missing = rows < 0
    if missing.any():
        distance[missing], rows[missing] = np.inf, 0
    return Nearest(distance, rows)


def _viewed(vectors: Vectors, before: NDArray[np.uint8]) -> Any:
    """A faiss index that uses mapped vectors without a copy, or None."""
    if before.tobytes() != preface(*vectors.shape) or not hasattr(faiss, "ZeroCopyIOReader"):
        return None
    size = before.nbytes + vectors.nbytes
    reader = faiss.ZeroCopyIOReader(faiss.swig_ptr(before), size)
    try:
        index = faiss.read_index(reader, faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError:
        return None
    mine = isinstance(index, faiss.IndexFlatL2) and (index.ntotal, index.d) == vectors.shape
    return index if mine else None
