"""Search that looks along a graph (HNSW) or into cells (IVF) instead of at every vector.

Tuned for recall@10 >= 0.99 on 100,000 clustered embeddings of 512 dimensions. What a graph would
do badly, such as finding the few that a filter leaves, is done by looking at every vector.
"""

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from surefind.engines.embedded.container import Bytes, mapped
from surefind.engines.embedded.damage import Damaged
from surefind.engines.embedded.flat import GATHERED_FROM, Flat, Nearest, Vectors, found_by_faiss
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.graph_format import Unfit, check_hnsw, check_ivf
from surefind.engines.embedded.library import faiss
from surefind.engines.embedded.manifest import Kept
from surefind.engines.embedded.segment import Segment
from surefind.engines.embedded.selecting import Selection
from surefind.engines.embedded.writing import hashed_file, new_name

LINKS, LOOK_BUILDING, LOOK = 32, 128, 320  # HNSW: M, efConstruction, efSearch
CELLS, TRAINED_ON = 4, 64  # IVF: cells per square root of the rows; rows per cell to learn them
LEAST_PROBES, PROBED = 16, 0.25  # IVF: cells that are looked into, and as a share of all
# What things cost, in rows of a large matrix product (measured at 513 dimensions):
STEP, ONE_BY_ONE = 350, 12  # a step along the graph; a row that is compared with one query
READING = 30  # a row that is brought to the processor, however many queries it is compared with
_BLOCK = 16_384  # rows handed to faiss at once


def graphs_possible() -> bool:
    """Whether this faiss can keep a graph beside vectors that lie elsewhere."""
    return all(hasattr(faiss, n) for n in ("ZeroCopyIOReader", "IO_FLAG_SKIP_STORAGE"))


class Graph:
    """A graph over the vectors of one segment."""

    def __init__(self, kept: Kept, file: BinaryIO, *, path: Path, segment: Segment) -> None:
        self.kept, self._segment = kept, segment
        self._content = mapped(path, file)
        self._index = _read(path, self._content, segment.flat)

    @property
    def kind(self) -> str:
        return self.kept.name.rpartition(".")[2]

    def search(self, query: Vectors, k: int, chosen: Selection | None = None) -> Nearest:
        """Looks at every vector where that is quicker: few rows, many queries at once, large k."""
        count = len(self._segment) if chosen is None else chosen.count
        k = min(k, count)
        how, cost = self._way(k, chosen)
        if cost > count * _cost_of_row(len(query)):
            return self._segment.flat.search(query, k, chosen)
        return found_by_faiss(*self._index.search(query, k, params=how))

    def _way(self, k: int, chosen: Selection | None) -> tuple[Any, float]:
        """How to search, and what it costs per query.

        The fewer rows are chosen, the further away the nearest of them are.
        """
        if chosen is None:
            selector, count, share = None, len(self._segment), 1.0
        else:
            selector, count, share = chosen.selector(), chosen.count, chosen.share
        if self.kind == "hnsw":
            look = int(max(LOOK, 2 * k) / share)
            return faiss.SearchParametersHNSW(efSearch=look, sel=selector), look * STEP
        cells = self._index.nlist
        probed = min(1.0, max(PROBED, LEAST_PROBES / cells, 4 * k / count) / share)
        how = faiss.SearchParametersIVF(nprobe=int(probed * cells), sel=selector)
        return how, probed * count * ONE_BY_ONE


def _cost_of_row(queries: int) -> float:
    """Per query, when all rows are looked at."""
    return ONE_BY_ONE if queries < GATHERED_FROM else 1 + READING / queries


def write_graph(folder: Folder, segment: Segment, kind: str) -> Kept:
    """Build the graph of a segment and put it beside it."""
    index, name = _built(segment.vectors, kind), new_name(kind)
    with hashed_file(folder.file(name)) as file:
        writer = faiss.PyCallbackIOWriter(file.write)
        # the vectors of an HNSW graph are those of the segment
        flags = faiss.IO_FLAG_SKIP_STORAGE if kind == "hnsw" else 0
        faiss.write_index(index, writer, flags)
    return file.kept(name)


def size_of_graph(kind: str, rows: int, width: int) -> int:
    """Bytes that it will take, roughly."""
    return rows * (8 * LINKS + 32 if kind == "hnsw" else 4 * width + 32)


def _built(vectors: Vectors, kind: str) -> Any:
    rows, width = vectors.shape
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(width, LINKS)
        index.hnsw.efConstruction = LOOK_BUILDING
    else:
        cells = int(CELLS * rows**0.5)
        index = faiss.IndexIVFFlat(faiss.IndexFlatL2(width), width, cells)
        index.cp.min_points_per_centroid, index.cp.seed, index.cp.niter = 1, 0, 10
        random = np.random.default_rng(0)
        sample = random.choice(rows, min(rows, TRAINED_ON * cells), replace=False)
        index.train(vectors[np.sort(sample)])
    for start in range(0, rows, _BLOCK):
        index.add(vectors[start : start + _BLOCK])
    return index


def _read(path: Path, content: Bytes, flat: Flat) -> Any:
    """A graph that faiss takes and that fits the vectors: one that does not could crash."""
    rows, width = flat.vectors.shape
    hnsw = path.suffix == ".hnsw"
    try:
        if hnsw:
            check_hnsw(content, rows=rows, width=width, links=LINKS)
        else:
            check_ivf(content, rows=rows, width=width)
        reader = faiss.ZeroCopyIOReader(faiss.swig_ptr(content), content.nbytes)
        flags = faiss.IO_FLAG_SKIP_STORAGE if hnsw else 0
        index = faiss.read_index(reader, flags | faiss.IO_FLAG_MMAP_IFC)
    except (Unfit, RuntimeError, MemoryError) as error:
        raise Damaged(path, "it is not a graph of its segment") from error
    if not _leads_to_rows(index):
        raise Damaged(path, "it leads to rows that do not exist")
    if hnsw:
        index.storage, index.own_fields = flat.stored(), False
    return index


def _leads_to_rows(index: Any) -> bool:
    """What faiss itself does not check when it reads."""
    if isinstance(index, faiss.IndexHNSWFlat):
        start = index.hnsw.entry_point
        return start >= 0 and bool(index.hnsw.levels.at(start) - 1 == index.hnsw.max_level)
    cells = index.invlists
    sizes = [cells.list_size(cell) for cell in range(index.nlist)]
    rows = [faiss.rev_swig_ptr(cells.get_ids(c), size) for c, size in enumerate(sizes) if size]
    return all(some.min() >= 0 and some.max() < index.ntotal for some in rows)
