"""Approximate nearest neighbours: HNSW graphs and IVF cells of faiss, one file each.

Tuned for recall@10 >= 0.99 on 100,000 clustered embeddings of 512 dimensions. An index covers the
first rows of the vectors file and is derived from them: it may be lost or damaged at any time.
"""

import hashlib
import mmap
import os
import secrets
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from surefind import storage
from surefind._faiss import faiss
from surefind.engines.embedded.vectors import (
    GATHERED_FROM,
    NearestRows,
    Selection,
    Vectors,
    marked_missing,
    nearest_of,
    search_rows,
)
from surefind.storage import CorruptFile

LINKS, LOOK_BUILDING, LOOK = 32, 128, 320  # HNSW: M, efConstruction, efSearch
CELLS, TRAINED_ON = 4, 64  # IVF: cells per square root of the rows; training rows per cell
LEAST_PROBES, PROBED = 16, 0.45  # IVF: smallest number and share of cells that are probed
# Costs in rows of a large matrix product (measured at 513 dimensions):
STEP, ONE_BY_ONE = 350, 12  # a step along the graph; a row that is compared with one query
READING = 30  # loading a row, however many queries it is compared with
GRAPH_FROM = 8_192  # smallest number of rows for a requested kind
AUTO_FROM = 100_000  # smallest number of rows for kind "auto", built by `compact`
GROWS_BY = 4  # extended when the uncovered rows are 1/4 of the covered ones,
TAIL_BYTES = 2**24  # or so large that reading them takes longer than the search along the graph
_AT_ONCE = 16_384  # rows handed to faiss

_READ_LOCK = Lock()


class AnnFile(NamedTuple):
    """Description of an index file in the database."""

    name: str
    covered: int
    sha256: str

    @property
    def kind(self) -> str:
        return self.name.rpartition(".")[2]


class AnnIndex:
    """HNSW or IVF index over the first `covered` rows."""

    def __init__(self, kept: AnnFile, path: Path, vectors: Vectors) -> None:
        self.kept, covered = kept, vectors[: kept.covered]
        try:
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != kept.sha256:
                    raise CorruptFile(path, "its checksum is wrong")
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._content = content = np.frombuffer(mapped, np.uint8)
            hnsw, width = kept.kind == "hnsw", vectors.shape[1]
            reader = faiss.ZeroCopyIOReader(faiss.swig_ptr(content), content.nbytes)
            flags = faiss.IO_FLAG_MMAP_IFC | (faiss.IO_FLAG_SKIP_STORAGE if hnsw else 0)
            with _READ_LOCK:  # the limit is global; it refuses sizes that exceed the file
                before = faiss.get_deserialization_vector_byte_limit()
                faiss.set_deserialization_vector_byte_limit(content.nbytes)
                try:
                    self.index = faiss.read_index(reader, flags)
                finally:
                    faiss.set_deserialization_vector_byte_limit(before)
            if not _fits(self.index, rows=len(covered), width=width, hnsw=hnsw):
                raise ValueError("other vectors")
        except OSError as error:
            raise CorruptFile(path, error.strerror or str(error)) from error
        except (ValueError, RuntimeError, MemoryError) as error:
            raise CorruptFile(path, "it is not a graph of these vectors") from error
        if hnsw:  # search in the mapped vectors, without a copy
            flat = faiss.IndexFlatL2(width)
            start, codes = faiss.swig_ptr(covered.view(np.uint8)), faiss.MaybeOwnedVectorUInt8
            flat.codes = codes.create_view(start, covered.nbytes, flat.codes.owner)
            flat.ntotal = len(covered)
            self._vectors, self._storage = covered, flat
            self.index.storage, self.index.own_fields = flat, False

    def pays(self, queries: int, k: int, count: int, rows: int) -> bool:
        """Return whether exhaustive search costs more, among `count` selected of `rows`."""
        steps = self._steps(k, count, rows)
        each = STEP if self.kept.kind == "hnsw" else count / self.index.nlist * ONE_BY_ONE
        row = ONE_BY_ONE if queries < GATHERED_FROM else 1 + READING / queries
        return bool(steps * each <= count * row)

    def search(self, vectors: Vectors, query: Vectors, k: int, chosen: Selection | None) -> NearestRows:
        """Search the covered rows, and exhaustively those that follow them."""
        covered, selector = self.kept.covered, None
        steps = self._steps(k, covered, covered)
        if chosen is not None:
            selector = chosen.selector(0, covered)
            steps = self._steps(k, chosen.count, len(chosen.mask))
        if self.kept.kind == "hnsw":
            how = faiss.SearchParametersHNSW(efSearch=steps, sel=selector)
        else:
            how = faiss.SearchParametersIVF(nprobe=steps, sel=selector)
        near = marked_missing(*self.index.search(query, min(k, covered), params=how))
        if covered == len(vectors):
            return near
        return nearest_of([near, search_rows(vectors, query, k, chosen, first=covered)], k)

    def _steps(self, k: int, count: int, rows: int) -> int:
        """Return efSearch or nprobe: the fewer rows are selected, the further away they are."""
        if self.kept.kind == "hnsw":
            return int(max(LOOK, 2 * k) * rows / count)
        cells = self.index.nlist
        probed = max(PROBED, LEAST_PROBES / cells, 4 * k / count) * rows / count
        return int(min(1.0, probed) * cells)


def kind_wanted(kind: str, rows: int, covered: int, width: int, *, compact: bool = False) -> str | None:
    """Return the kind of index to build or extend now, if any."""
    if kind == "flat" or rows <= covered or (kind == "auto" and not (covered or compact)):
        return None
    longest = rows if kind == "ivf" else TAIL_BYTES // (4 * width)  # its file has the vectors too
    grown = compact or rows - covered >= max(GRAPH_FROM, min(covered // GROWS_BY, longest))
    enough = rows >= (AUTO_FROM if kind == "auto" else GRAPH_FROM)
    return ("hnsw" if kind == "auto" else kind) if grown and enough else None


def write_index(folder: Path, vectors: Vectors, kind: str, old: AnnIndex | None) -> AnnFile:
    """Build the index of all vectors, from the old one where there is one, and flush it."""
    (rows, width), done = vectors.shape, 0
    # the vectors of an HNSW graph stay in their own file
    flags = faiss.IO_FLAG_SKIP_STORAGE if kind == "hnsw" else 0
    if old is not None and old.kept.kind == kind:
        index, done = faiss.read_index(str(folder / old.kept.name), flags), old.kept.covered
        if kind == "hnsw":
            flat = faiss.IndexFlatL2(width)
            flat.add(vectors[:done])
            index.storage, index.own_fields = flat, False
    elif kind == "hnsw":
        index = faiss.IndexHNSWFlat(width, LINKS)
        index.hnsw.efConstruction = LOOK_BUILDING
    else:
        index = faiss.IndexIVFFlat(faiss.IndexFlatL2(width), width, int(CELLS * rows**0.5))
        index.cp.min_points_per_centroid, index.cp.seed, index.cp.niter = 1, 0, 10
        random = np.random.default_rng(0)
        sample = random.choice(rows, min(rows, TRAINED_ON * index.nlist), replace=False)
        index.train(vectors[np.sort(sample)])
    for start in range(done, rows, _AT_ONCE):
        index.add(vectors[start : start + _AT_ONCE])
    path, digest = folder / f"{secrets.token_hex(16)}.{kind}", hashlib.sha256()
    with path.open("xb") as file:

        def write(content: bytes) -> int:
            digest.update(content)
            return file.write(content)

        faiss.write_index(index, faiss.PyCallbackIOWriter(write), flags)
        file.flush()
        os.fsync(file.fileno())
    storage.sync_folder(folder)
    return AnnFile(path.name, rows, digest.hexdigest())


def _fits(index: Any, *, rows: int, width: int, hnsw: bool) -> bool:
    """Return whether an index that faiss has read belongs to these rows and refers to no other."""
    if type(index) is not (faiss.IndexHNSWFlat if hnsw else faiss.IndexIVFFlat):
        return False
    if (index.ntotal, index.d, index.metric_type) != (rows, width, faiss.METRIC_L2):
        return False
    if hnsw:
        links, start = index.hnsw, index.hnsw.entry_point
        sizes = (links.levels.size(), links.offsets.size(), links.neighbors.size())
        return bool(
            sizes == (rows, rows + 1, links.offsets.at(rows))
            and 0 <= start < rows
            and links.levels.at(start) - 1 == links.max_level
        )
    cells = index.invlists
    counts = [cells.list_size(cell) for cell in range(index.nlist)]
    found = [faiss.rev_swig_ptr(cells.get_ids(c), size) for c, size in enumerate(counts) if size]
    return sum(counts) == rows and all(s.min() >= 0 and s.max() < rows for s in found)
