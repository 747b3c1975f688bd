"""The sizes in a graph's file, compared with the file before faiss makes room for what they say."""

import numpy as np
from numpy.typing import NDArray

from surefind.engines.embedded.container import Bytes
from surefind.engines.embedded.flat import preface
from surefind.engines.embedded.library import faiss

_HEADER = 37  # bytes before what differs between kinds: kind, dimensions, rows, metric
_HNSW_END = 24  # entry point and settings, then the word for "no vectors"


class Unfit(ValueError):
    """A file whose sizes are not those of the graph that it should be."""


class _Reader:
    """Goes through a file without ever leaving it."""

    def __init__(self, content: Bytes) -> None:
        self._content, self._at = content, 0

    @property
    def left(self) -> int:
        return len(self._content) - self._at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise Unfit
        self._at += size
        return self._content[self._at - size : self._at].tobytes()

    def numbers(self, count: int) -> NDArray[np.uint64]:
        return np.frombuffer(self.take(8 * count), "<u8")

    def number(self) -> int:
        return int(self.numbers(1)[0])

    def expect(self, wanted: bytes) -> None:
        if self.take(len(wanted)) != wanted:
            raise Unfit


def check_hnsw(content: Bytes, *, rows: int, width: int, links: int) -> None:
    """Raise `Unfit` unless all sizes are those of a graph of so many rows, without vectors."""
    reader = _Reader(content)
    reader.expect(_beginning(faiss.IndexHNSWFlat(width, links), rows))
    if reader.number() != rows:
        raise Unfit
    reader.take(4 * rows)  # levels
    if reader.number() != rows + 1:
        raise Unfit
    last = int(reader.numbers(rows + 1)[-1])  # where the links of each begin
    if reader.number() != last:
        raise Unfit
    reader.take(4 * last)
    if reader.left != _HNSW_END or content[-4:].tobytes() != b"null":
        raise Unfit


def check_ivf(content: Bytes, *, rows: int, width: int) -> None:
    """Raise `Unfit` unless all sizes are those of so many rows in cells."""
    reader = _Reader(content)
    header = _written(faiss.IndexIVFFlat(faiss.IndexFlatL2(width), width, 1))[:_HEADER]
    reader.expect(_of_rows(header, rows))
    cells = reader.number()
    if not 1 <= cells <= rows:
        raise Unfit
    reader.take(8)
    reader.expect(preface(cells, width))
    reader.take(4 * cells * width)  # their middles
    reader.expect(bytes(9))  # no table of rows
    reader.expect(b"ilar" + cells.to_bytes(8, "little") + (4 * width).to_bytes(8, "little"))
    if sum(map(int, _cell_sizes(reader, cells))) != rows:
        raise Unfit
    if reader.left != rows * (4 * width + 8):
        raise Unfit


def _cell_sizes(reader: _Reader, cells: int) -> NDArray[np.uint64]:
    """Of all cells; or, where most are empty, of those that are not, after their numbers."""
    how, count = reader.take(4), reader.number()
    if how == b"full" and count == cells:
        return reader.numbers(count)
    if how == b"sprs" and count % 2 == 0:
        pairs = reader.numbers(count).reshape(-1, 2)
        if (pairs[:, 0] < cells).all() and (np.diff(pairs[:, 0].astype(np.int64)) > 0).all():
            return pairs[:, 1]
    raise Unfit


def _beginning(empty: object, rows: int) -> bytes:
    """What a file of that graph begins with, up to its first column; an empty one has it too."""
    written = _written(empty)
    columns = 8 + (8 + 8) + 8  # three sizes, and the one entry that an empty graph has
    return _of_rows(written[: -_HNSW_END - columns], rows)


def _of_rows(header: bytes, rows: int) -> bytes:
    """The same header for so many rows, trained."""
    return header[:8] + rows.to_bytes(8, "little") + header[16:32] + b"\1" + header[33:]


def _written(index: object) -> bytes:
    writer = faiss.VectorIOWriter()
    faiss.write_index(index, writer, faiss.IO_FLAG_SKIP_STORAGE)
    return bytes(faiss.vector_to_array(writer.data).tobytes())
