"""Number, mean and spread of the indexed images of each class, kept up to date while rows change."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from surefind.engines.base import Engine, Rows
from surefind.engines.filters import Metadata
from surefind.storage import Documents

LABEL = "label"  # metadata field with the class, unless another one is named
CLASSES = "classes"  # document of the table
ROWS_AT_ONCE = 4096  # in float64

T = TypeVar("T")

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]  # of classes: rows of a table; -1 if unlabelled


def is_missing(label: object) -> bool:
    """Whether a label is None, NaN or empty."""
    return label is None or label == "" or label != label


def label_of(facts: Metadata, field: str = LABEL) -> str | None:
    """Label as text: 3 in a table equals "3" of a folder."""
    label = facts.get(field)
    if isinstance(label, str):
        return label or None
    return None if is_missing(label) else str(label)


def labels_of(metadata: Sequence[Metadata], field: str = LABEL) -> list[str | None]:
    return [label_of(facts, field) for facts in metadata]


@dataclass(frozen=True)
class ClassTable:
    """Counts, sums and squared lengths of the vectors of each class.

    Means and spreads follow from these; rows can be added and taken away without the others.
    """

    field: str  # metadata field of the labels
    names: tuple[str, ...]  # of C classes; a class without rows keeps its name
    counts: Numbers  # (C,)
    sums: Numbers  # (C, D)
    squares: Numbers  # (C,), sums of squared lengths
    revision: tuple[str, int] = ("", 0)  # of the rows that it describes

    @classmethod
    def empty(cls, dim: int, field: str = LABEL, *, revision: tuple[str, int] = ("", 0)) -> "ClassTable":
        """Return the table of no rows."""
        return cls(field, (), np.zeros(0), np.zeros((0, dim)), np.zeros(0), revision)

    @classmethod
    def of(cls, engine: Engine, field: str = LABEL) -> "ClassTable":
        """Read all rows of an engine, block by block."""
        table = cls.empty(engine.space.dim, field, revision=engine.revision)
        for block in engine.scan():
            labels = labels_of(engine.records(block.keys).metadata, field)
            table = table.changed(engine.space.means(block.vectors), labels)
        return table

    def changed(self, means: NDArray[np.floating], labels: Sequence[str | None], *, times: int = 1) -> "ClassTable":
        """Add rows with means (N, D), or take them away with `times` = -1; None is no label."""
        if not any(label is not None for label in labels):
            return self
        new = dict.fromkeys(label for label in labels if label is not None)
        names = (*self.names, *(label for label in new if label not in self.codes))
        more = len(names) - len(self.names)
        table = replace(
            self,
            names=names,
            counts=np.pad(self.counts, (0, more)),
            sums=np.pad(self.sums, [(0, more), (0, 0)]),
            squares=np.pad(self.squares, (0, more)),
        )
        from scipy.sparse import coo_array  # type: ignore[import-untyped]  # not for a search

        codes = table.codes_of(labels)
        rows = np.flatnonzero(codes >= 0)
        members = coo_array(
            (np.full(len(rows), float(times)), (codes[rows], np.arange(len(rows)))), shape=(len(names), len(rows))
        ).tocsc()
        counts, sums, squares = table.counts + members.sum(axis=1), table.sums.copy(), table.squares.copy()
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            wide = means[rows[some]].astype(np.float64)
            sums += members[:, some] @ wide
            squares += members[:, some] @ np.square(wide).sum(axis=1)
        left = counts > 0  # an empty class has no rounding errors either
        return replace(
            table,
            counts=np.where(left, counts, 0),
            sums=np.where(left[:, None], sums, 0),
            squares=np.where(left, squares, 0),
        )

    @cached_property
    def codes(self) -> dict[str, int]:
        return {name: code for code, name in enumerate(self.names)}

    def codes_of(self, labels: Sequence[str | None]) -> Codes:
        """Codes of labels, (N,); -1 for None and unknown ones."""
        found = (-1 if label is None else self.codes.get(label, -1) for label in labels)
        return np.fromiter(found, np.int64, len(labels))

    @cached_property
    def classes(self) -> int:
        """Number of classes with rows."""
        return int((self.counts > 0).sum())

    @cached_property
    def images(self) -> int:
        """Number of labelled rows."""
        return int(self.counts.sum())

    @cached_property
    def squared_sums(self) -> Numbers:
        """Squared lengths of the sums, (C,)."""
        return np.asarray(np.square(self.sums).sum(axis=1))

    @cached_property
    def spread(self) -> float:
        r"""Pooled variance within classes: sum |x - mean|^2 / sum (n - 1)."""
        some = self.counts > 1
        within = self.squares[some] - self.squared_sums[some] / self.counts[some]
        return float(max(within.sum(), 0) / max((self.counts[some] - 1).sum(), 1))

    def to_bytes(self) -> bytes:
        facts = {"field": self.field, "names": self.names, "revision": self.revision}
        return save(
            {
                "counts": self.counts,
                "sums": self.sums,
                "squares": self.squares,
                "facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8),
            }
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> "ClassTable":
        tensors = load(content)
        facts = json.loads(tensors.pop("facts").tobytes())
        name, number = facts["revision"]
        return cls(facts["field"], tuple(facts["names"]), revision=(name, number), **tensors)


class ClassTracker:
    """Adds and removes rows of an engine; the class table follows without reading other rows.

    The table is dropped, to be read anew, if others wrote at the same time.
    """

    def __init__(self, engine: Engine, documents: Documents) -> None:
        self._engine, self._documents = engine, documents
        self._table: ClassTable | None = None  # None: read when needed
        self._unsaved = False

    def start_empty(self) -> None:
        """Begin with no rows."""
        self._table = ClassTable.empty(self._engine.space.dim, revision=self._engine.revision)

    def add(self, rows: Rows) -> None:
        """Add rows to the engine, replacing those with a known id."""
        self._follow(rows.ids, rows, lambda: self._engine.add(rows))

    def remove(self, ids: Sequence[str]) -> int:
        """Remove rows from the engine; return how many there were."""
        return self._follow(ids, None, lambda: self._engine.remove(ids))

    def compact(self) -> None:
        """Compact the engine, which changes no row."""
        before = self._engine.revision
        self._engine.compact()
        if self._table is not None and self._table.revision == before:
            self._table = replace(self._table, revision=self._engine.revision)
            self._unsaved = True
            self.save()

    def table(self, field: str = LABEL) -> ClassTable:
        """Return the table of a label field: the one at hand, the saved one, or read from rows."""
        table = self._table
        if table is None or not self._describes(table, field):
            found = self._documents.read(CLASSES)
            table = ClassTable.from_bytes(found[CLASSES]) if found else None
            if table is None or not self._describes(table, field):
                table, self._unsaved = ClassTable.of(self._engine, field), True
            self._table = table
        return table

    def _describes(self, table: ClassTable, field: str) -> bool:
        return (table.field, table.revision) == (field, self._engine.revision)

    def save(self) -> None:
        """Write the table if it changed."""
        if self._table is not None and self._unsaved:
            self._documents.write({CLASSES: self._table.to_bytes()})
            self._unsaved = False

    def _follow(self, ids: Sequence[str], new: Rows | None, write: Callable[[], T]) -> T:
        """Write to the engine; take rows with these ids from the table, and add the new ones."""
        table, self._table = self._table, None  # read anew if the write fails
        if table is None:
            return write()
        before, changed = self._engine.revision, 0
        for rows, times in ((self._engine.find(ids), -1), (new, 1)):
            if rows:
                changed += times * len(rows)
                labels = labels_of(rows.metadata, table.field)
                table = table.changed(rows.embeddings.mean.cpu().numpy(), labels, times=times)
        done = write()
        name, number = after = self._engine.revision
        one_write = {before[1] + 1, before[1] + changed}  # Milvus counts rows instead
        if table.revision == before and name == before[0] and number in one_write:
            self._table = replace(table, revision=after)
            self._unsaved = True
        return done
