"""An open version of an index: what a reader sees, whatever is written meanwhile."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from surefind.engines.embedded.columns import Ints, encoded, hashes
from surefind.engines.embedded.flat import Nearest, Vectors
from surefind.engines.embedded.graph import Graph
from surefind.engines.embedded.manifest import Manifest, Piece
from surefind.engines.embedded.segment import Segment
from surefind.engines.embedded.selecting import Mask, Remembered, Selection, name_of
from surefind.engines.where import Where


@dataclass(frozen=True, eq=False)
class Part:
    """A segment as one version sees it."""

    piece: Piece
    segment: Segment
    alive: Mask | None  # None if no row was removed
    graph: Graph | None
    _selections: Remembered[Selection] = field(default_factory=Remembered)

    def selection(self, where: Where | None) -> Selection | None:
        """The rows that may be found; None if that is all of them."""
        if where is None and self.alive is None:
            return None
        name = None if where is None else name_of(where)
        return self._selections.get(name, lambda: self._selected(where))

    def _selected(self, where: Where | None) -> Selection:
        masks = [] if self.alive is None else [self.alive]
        masks += [] if where is None else [self.segment.satisfying(where)]
        return Selection(np.logical_and.reduce(masks))

    def rows(self, where: Where | None = None) -> Ints:
        """The rows that may be found, ascending."""
        chosen = self.selection(where)
        return np.arange(len(self.segment)) if chosen is None else np.flatnonzero(chosen.mask)

    def lives(self, row: int) -> bool:
        return self.alive is None or bool(self.alive[row])

    def search(self, query: Vectors, k: int, where: Where | None) -> Nearest:
        chosen = self.selection(where)
        return (self.graph or self.segment.flat).search(query, k, chosen)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One version: its manifest, and everything that is named there, open."""

    manifest: Manifest
    sha256: str  # of the manifest
    parts: tuple[Part, ...]
    troubles: tuple[str, ...] = ()  # what is damaged but not needed

    def count(self, where: Where | None = None) -> int:
        chosen = [part.selection(where) for part in self.parts]
        return sum(
            len(part.segment) if some is None else some.count
            for part, some in zip(self.parts, chosen, strict=True)
        )

    def with_ids(self, ids: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        """(position in `ids`, part, row) of each that is known, newest part first."""
        names = [encoded(name) for name in ids]
        asked = hashes(names)
        for number in reversed(range(len(self.parts))):
            part = self.parts[number]
            for position, row in part.segment.rows_with_id(names, asked):
                if part.lives(row):
                    yield position, number, row

    def with_keys(self, keys: Ints) -> tuple[NDArray[np.int64], Ints]:
        """(part, row) of each key; part -1 where there is no such row."""
        number, rows = np.full(len(keys), -1), np.zeros(len(keys), dtype=np.int64)
        for i, part in enumerate(self.parts):
            row = part.segment.rows_with_key(keys)
            here = row >= 0
            if part.alive is not None:
                here &= part.alive[row]
            number[here], rows[here] = i, row[here]
        return number, rows
