"""The format of a segment: one file of columns, each where its header says and nowhere else."""

import json
import mmap
from dataclasses import asdict, dataclass, fields
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.engines.embedded.damage import Damaged

ALIGNED = 64
DIGEST = 32  # bytes of a sha256
_LENGTH = 8  # bytes that say how long the header is
_LONGEST_HEADER = 16_384
_MAGIC = "surefind segment 1"

Bytes = NDArray[np.uint8]


class Column(NamedTuple):
    """Where one array lies in the file."""

    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Shape:
    """All numbers that the layout of a segment follows from."""

    rows: int
    width: int
    id_bytes: int
    metadata_bytes: int
    digests: int  # rows that have one
    preface: int  # bytes before the vectors that make them a faiss index


class Layout(NamedTuple):
    """A header, the columns after it in the order of the file, and the size of the whole."""

    header: bytes
    columns: dict[str, Column]
    size: int


def layout(shape: Shape) -> Layout:
    n, width = shape.rows, shape.width
    wanted: dict[str, tuple[str, tuple[int, ...]]] = {
        "key": ("<i8", (n,)),
        "var": ("<f8", (n,)),
        "has_digest": ("|u1", (n,)),
        "digest": ("|u1", (n, DIGEST)),
        "id_offset": ("<i8", (n + 1,)),
        "id": ("|u1", (shape.id_bytes,)),
        "metadata_offset": ("<i8", (n + 1,)),
        "metadata": ("|u1", (shape.metadata_bytes,)),
        "id_hash": ("<u8", (n,)),  # ascending, with the row of each:
        "id_row": ("<u4", (n,)),
        "digest_hash": ("<u8", (shape.digests,)),  # likewise
        "digest_row": ("<u4", (shape.digests,)),
        "preface": ("|u1", (shape.preface,)),
        "vectors": ("<f4", (n, width)),
    }
    columns, end = {}, 0
    for name, (dtype, size) in wanted.items():
        before = shape.preface if name == "preface" else 0  # it ends where the vectors begin
        start = _aligned(end + before) - before
        columns[name] = Column(dtype, size, start)
        end = start + columns[name].nbytes
    header = _header(shape, columns)
    columns = {name: c._replace(offset=c.offset + len(header)) for name, c in columns.items()}
    return Layout(header, columns, len(header) + end)


def mapped(path: Path, file: BinaryIO) -> Bytes:
    """The content of an open file, read only when it is looked at."""
    try:
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except (OSError, ValueError) as error:
        raise Damaged(path, "it cannot be mapped into memory") from error


def columns_of(path: Path, content: Bytes) -> dict[str, NDArray[Any]]:
    """The columns of a mapped segment, without a copy.

    The header is believed only where it says, byte by byte, what follows from a few numbers, and
    only if these make a file of exactly this size: nothing is ever read elsewhere.
    """
    shape = _shape(path, content)
    made = layout(shape)
    if made.size != len(content) or made.header != content[: len(made.header)].tobytes():
        raise Damaged(path, "its header does not describe it")
    return {
        name: content[c.offset : c.offset + c.nbytes].view(c.dtype).reshape(c.shape)
        for name, c in made.columns.items()
    }


def _shape(path: Path, content: Bytes) -> Shape:
    length = int.from_bytes(content[:_LENGTH].tobytes(), "little")
    if not 0 < length <= min(_LONGEST_HEADER, len(content) - _LENGTH):
        raise Damaged(path, "its header has no possible length")
    try:
        told = json.loads(content[_LENGTH : _LENGTH + length].tobytes())
        numbers = {field.name: told["shape"][field.name] for field in fields(Shape)}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Damaged(path, "its header is not readable") from error
    most = len(content)  # no count can be larger: every one stands for at least a byte
    if not all(type(n) is int and 0 <= n <= most for n in numbers.values()):
        raise Damaged(path, "its header has an impossible number")
    return Shape(**numbers)


def _header(shape: Shape, columns: dict[str, Column]) -> bytes:
    """Offsets in it count from its own end, so that its length changes none of them."""
    told = {
        "format": _MAGIC,
        "shape": asdict(shape),
        "columns": {name: [c.dtype, list(c.shape), c.offset] for name, c in columns.items()},
    }
    text = json.dumps(told).encode()
    length = _aligned(_LENGTH + len(text)) - _LENGTH
    return length.to_bytes(_LENGTH, "little") + text.ljust(length)


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNED) * ALIGNED
