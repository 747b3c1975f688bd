"""Class table of an index, kept up to date while its rows change."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from surefind.confidence.class_table import LABEL, ClassTable, label_of
from surefind.engines.base import Engine, Rows
from surefind.storage import Documents

CLASSES = "classes"  # document of the table


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
        with self._followed() as change:
            change(self._engine.find(rows.ids), -1)
            self._engine.add(rows)
            change(rows, 1)

    def remove(self, ids: Sequence[str]) -> int:
        """Remove rows from the engine; return how many there were."""
        with self._followed() as change:
            change(self._engine.find(ids), -1)
            return self._engine.remove(ids)

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
        wanted = (field, self._engine.revision)
        if self._table is None or (self._table.field, self._table.revision) != wanted:
            found = self._documents.read(CLASSES)
            table = ClassTable.from_bytes(found[CLASSES]) if found else None
            if table is None or (table.field, table.revision) != wanted:
                table, self._unsaved = ClassTable.of(self._engine, field), True
            self._table = table
        return self._table

    def save(self) -> None:
        """Write the table if it changed."""
        if self._table is not None and self._unsaved:
            self._documents.write({CLASSES: self._table.to_bytes()})
            self._unsaved = False

    @contextmanager
    def _followed(self) -> Iterator[Callable[[Rows, int], None]]:
        """Yield a function that adds rows to the table, or takes them away (-1)."""
        table, self._table = self._table, None
        if table is None:
            yield lambda rows, times: None  # noqa: ARG005
            return
        before, changed = self._engine.revision, 0

        def change(rows: Rows, times: int) -> None:
            nonlocal table, changed
            assert table is not None
            changed += times * len(rows)
            if len(rows):
                labels = [label_of(facts, table.field) for facts in rows.metadata]
                table = table.changed(rows.embeddings.mean.cpu().numpy(), labels, times=times)

        yield change
        name, number = after = self._engine.revision
        one_write = {before[1] + 1, before[1] + changed}  # Milvus counts rows instead
        if table.revision == before and name == before[0] and number in one_write:
            self._table = replace(table, revision=after)
            self._unsaved = True
