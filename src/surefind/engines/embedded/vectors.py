"""The append-only file of vectors, memory-mapped, and exhaustive search in it with faiss."""

import mmap
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind import storage
from surefind._faiss import faiss
from surefind.engines.base import EngineError
from surefind.storage import CorruptFile, disk_error

HEADER = b"surefind vectors 2".ljust(64, b"\0")
GATHERED_FROM = 4  # queries at once; with a selector faiss multiplies no matrices
SELECTIVE = 24  # with a smaller share of the rows, a copy is quicker for one query too
GATHERED_BYTES = 64 * 2**20
SPARE = 32  # candidates beyond k, in place of removed rows

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Vectors = NDArray[np.float32]
Head = tuple[int, int, int, int]  # of a block: first, count, vectors_crc, columns_crc


class NearestRows(NamedTuple):
    """Nearest rows of each query; infinite distance where there are fewer than k."""

    distance: NDArray[np.float32]  # (Q, k)
    rows: Ints  # (Q, k)


class Selection:
    """A subset of the rows."""

    def __init__(self, mask: Mask) -> None:
        self.mask, self.count = mask, int(np.count_nonzero(mask))

    def selector(self, first: int = 0, stop: int | None = None) -> Any:
        return faiss.IDSelectorBitmap(np.packbits(self.mask[first:stop], bitorder="little"))


def map_vectors(path: Path, *, rows: int, width: int, blocks: Iterable[Head] = ()) -> Vectors:
    """Map the first `rows` vectors of a file; what follows belongs to no version.

    The checksums of `blocks` are verified by reading: an I/O error in a mapping is a crash.
    """
    if not rows:
        return np.empty((0, width), np.float32)
    end = len(HEADER) + 4 * rows * width
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < end or file.read(len(HEADER)) != HEADER:
            raise CorruptFile(path, f"it has {size} bytes instead of {end}, or another header")
        for first, count, wanted, _ in blocks:
            crc, left = 0, 4 * count * width
            file.seek(len(HEADER) + 4 * first * width)
            while left and (content := file.read(min(2**20, left))):
                crc, left = zlib.crc32(content, crc), left - len(content)
            if crc != wanted:
                raise CorruptFile(path, f"rows {first} to {first + count} are not as they were written")
        mapped = mmap.mmap(file.fileno(), end, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, "<f4", offset=len(HEADER)).reshape(rows, width)


def unload(vectors: Any) -> None:
    """Give back the memory of what `map_vectors` returned; the next read takes it again."""
    if len(vectors) and hasattr(mmap, "MADV_DONTNEED"):
        vectors.base.base.obj.madvise(mmap.MADV_DONTNEED)


@contextmanager
def appended(path: Path, *, rows: int, width: int) -> Iterator[Any]:
    """Open the file behind the first `rows`, over what a killed writer left, and flush it."""
    new = not rows
    with path.open("wb" if new else "r+b") as file:
        file.write(HEADER) if new else file.truncate(len(HEADER) + 4 * rows * width)
        file.seek(0, os.SEEK_END)
        yield file
        file.flush()
        os.fsync(file.fileno())
    if new:
        storage.sync_folder(path.parent)


def check_free_space(folder: Path, size: int) -> None:
    """Raise EngineError if the disk cannot hold `size` more bytes."""
    free, need = shutil.disk_usage(folder).free, size + 2**20
    if need > free:
        why = f"{free / 2**20:.0f} MB are free, {need / 2**20:.0f} MB are needed"
        raise disk_error(folder, "write", why, EngineError)


def search_rows(vectors: Vectors, query: Vectors, k: int, chosen: Selection | None, *, first: int = 0) -> NearestRows:
    """Return the k nearest of the selected rows from `first` on."""
    rows = vectors[first:]
    mask = np.ones(len(rows), bool) if chosen is None else chosen.mask[first:]
    count = int(np.count_nonzero(mask))
    k = min(k, count)
    if chosen is None or not k:
        near = _knn(query, rows, k)
    elif len(rows) - count <= len(rows) // 4:
        near = _among_most(query, rows, k, mask)
    elif len(query) < GATHERED_FROM and count > len(rows) // SELECTIVE:
        near = _knn(query, rows, k, chosen.selector(first))
    else:
        near = _gathered(query, rows, k, np.flatnonzero(mask))
    return near._replace(rows=near.rows + first) if first else near


def nearest_of(found: list[NearestRows], k: int) -> NearestRows:
    """Return the k nearest of several; equal ones in the order given."""
    distance, rows = (np.concatenate(column, axis=1) for column in zip(*found, strict=True))
    order = np.argsort(distance, axis=1, kind="stable")[:, :k]
    return NearestRows(np.take_along_axis(distance, order, 1), np.take_along_axis(rows, order, 1))


def marked_missing(distance: NDArray[np.float32], rows: Ints) -> NearestRows:
    """Replace row -1, faiss's mark for no more hits, by an infinite distance."""
    missing = rows < 0
    if missing.any():
        distance[missing], rows[missing] = np.inf, 0
    return NearestRows(distance, rows)


def _knn(query: Vectors, rows: Vectors, k: int, selector: Any = None) -> NearestRows:
    """Search mapped rows, as `IndexFlatL2.search` does in its own copy."""
    distance = np.empty((len(query), k), np.float32)
    found = np.empty((len(query), k), np.int64)
    if k and len(query):
        asked, kept, near, numbers = map(faiss.swig_ptr, (query, rows, distance, found))
        sizes = (rows.shape[1], len(query), len(rows), k)
        faiss.knn_L2sqr(asked, kept, *sizes, near, numbers, None, selector)
    return marked_missing(distance, found)


def _among_most(query: Vectors, rows: Vectors, k: int, mask: Mask) -> NearestRows:
    """Search all rows and drop the few unselected; again for queries with too few hits."""
    near = _knn(query, rows, min(k + SPARE, len(rows)))
    near.distance[~mask[near.rows]] = np.inf
    found = nearest_of([near], k)
    short = np.flatnonzero(np.isinf(found.distance).any(axis=1))
    if len(short):
        again = _gathered(query[short], rows, k, np.flatnonzero(mask))
        found.distance[short], found.rows[short] = again
    return found


def _gathered(query: Vectors, rows: Vectors, k: int, places: Ints) -> NearestRows:
    """Search a copy of the selected rows: for many queries quicker than a selector."""
    step = max(k, GATHERED_BYTES // rows[0].nbytes)
    found = []
    for start in range(0, len(places), step):
        some = places[start : start + step]
        near = _knn(query, rows[some], min(k, len(some)))
        found.append(near._replace(rows=some[near.rows]))
    return nearest_of(found, k)
