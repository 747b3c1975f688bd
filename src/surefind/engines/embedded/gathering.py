"""Chosen rows of several sources as one, in the order of their keys, without holding them all."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.engines.embedded.columns import Columns, Ints

BLOCK_BYTES = 8 * 2**20


class Chosen(NamedTuple):
    """Some rows of one source, ascending."""

    columns: Columns
    rows: Ints


class Gathered:
    """The chosen rows; what is large is copied block by block."""

    def __init__(self, sources: Sequence[Chosen]) -> None:
        self._sources = [source.columns for source in sources]
        keys = np.concatenate([columns.key[rows] for columns, rows in sources])
        order = np.argsort(keys, kind="stable")
        counts = [len(source.rows) for source in sources]
        self._source = np.repeat(np.arange(len(sources), dtype=np.int32), counts)[order]
        self._row = np.concatenate([rows for _, rows in sources])[order]
        self.width = sources[0].columns.vectors.shape[1]

    def __len__(self) -> int:
        return len(self._row)

    def column(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """A column of one number or one short row of numbers per row."""
        source, row = self._source[start:stop], self._row[start:stop]
        first: NDArray[Any] = getattr(self._sources[0], name)
        taken = np.empty((len(row), *first.shape[1:]), first.dtype)
        for number in np.unique(source):
            here = source == number
            taken[here] = getattr(self._sources[number], name)[row[here]]
        return taken

    def blocks(self, name: str) -> Iterator[memoryview]:
        """The same column, a part at a time."""
        first: NDArray[Any] = getattr(self._sources[0], name)
        step = max(1, BLOCK_BYTES // (first.itemsize * int(np.prod(first.shape[1:]))))
        for start in range(0, len(self), step):
            yield self.column(name, start, start + step).data

    def offsets(self, name: str) -> Ints:
        """Where each text of a column begins when they are put together."""
        length = np.empty(len(self), dtype=np.int64)
        for number, columns in enumerate(self._sources):
            here = self._source == number
            length[here] = np.diff(getattr(columns, name).offset)[self._row[here]]
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(length)])

    def texts(self, name: str, *, at_once: int = 4096) -> Iterator[bytes]:
        """The texts of a column put together, a part at a time."""
        every = [getattr(columns, name) for columns in self._sources]
        for start in range(0, len(self), at_once):
            pairs = zip(
                self._source[start : start + at_once].tolist(),
                self._row[start : start + at_once].tolist(),
                strict=True,
            )
            yield b"".join(every[number][row] for number, row in pairs)
