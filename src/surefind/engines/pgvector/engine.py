"""An engine in a PostgreSQL database, which others may read and write at the same time."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from surefind.engines.engine import KINDS, Block, Found, Keys, Rows
from surefind.engines.pgvector import (
    about,
    checking,
    extension,
    reading,
    searching,
    tables,
    vector_index,
    writing,
)
from surefind.engines.pgvector.conditions import clause
from surefind.engines.pgvector.connections import Connections
from surefind.engines.pgvector.driver import SQL, Connection
from surefind.engines.pgvector.url import parse
from surefind.engines.space import Space
from surefind.engines.where import Where
from surefind.validation import check_choice

MOST = 1_000_000


def create(place: str, space: Space, facts: Mapping[str, Any], *, kind: str) -> "PgvectorEngine":
    """In one transaction: an index is there in full, or not at all.

    Whatever its kind, it looks at all rows until `compact` has built a graph or cells: to build
    them from many rows at once is far quicker than row by row.
    """
    check_choice("kind", kind, ("auto", *KINDS))
    vector_index.check_width(space.width, kind)
    where = parse(place)
    making = Connections(where)
    try:
        with making.transaction() as connection:
            tables.one_at_a_time(connection)
            extension.check_encoding(connection, where)
            extension.ensure_extension(connection, where)
            tables.make(connection, where, space=space, facts=facts, kind=kind)
    finally:
        making.close()  # it did not know vectors yet
    return open_place(place)


def open_place(place: str) -> "PgvectorEngine":
    connections = Connections(parse(place))
    try:
        return PgvectorEngine(connections)
    except BaseException:
        connections.close()
        raise


class PgvectorEngine:
    """Opened by `create` and `open_place`. Several threads may use it.

    When the server goes away the call raises `EngineError`; the next one connects anew.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections, self._place = connections, connections.place
        with connections.borrowed() as connection:
            self._entry = tables.entry(connection, self._place)
            extension.check_extension(connection, self._place)
            self._index = vector_index.present(connection, self._place, self._entry.kind)
            self._warnings = about.warnings(connection, self._place, self._entry, self._index)
        self._seen = self._entry.changes

    @property
    def space(self) -> Space:
        return self._entry.space

    @property
    def facts(self) -> Mapping[str, Any]:
        return MappingProxyType(dict(self._entry.facts))

    @property
    def exact(self) -> bool:
        return self._index is None

    @property
    def most(self) -> int:
        return MOST

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._warnings

    def add(self, rows: Rows) -> None:
        if not len(rows):
            return
        self.space.check(rows.embeddings)
        with self._connections.transaction() as connection:
            connection.execute(writing.DURABLE)
            blocks = writing.blocks(rows, self.space)
            new = sum(writing.put(connection, self._place, block) for block in blocks)
            changes = self._note_change(connection, new)
        self._see(changes)

    def remove(self, ids: Sequence[str]) -> int:
        with self._connections.transaction() as connection:
            connection.execute(writing.DURABLE)
            removed = writing.remove(connection, self._place, ids)
            if not removed:
                return 0
            changes = self._note_change(connection, -removed)
        self._see(changes)
        return removed

    def search(self, vectors: NDArray[np.float32], k: int, where: Where | None = None) -> Found:
        return searching.search(
            self._connections, vectors, k=k, clause=clause(where), index=self._index
        )

    def rows(self, keys: Keys) -> Rows:
        return reading.rows(self._connections, keys, self.space)

    def find(self, ids: Sequence[str]) -> Rows:
        return reading.find(self._connections, ids, self.space)

    def scan(self, where: Where | None = None) -> Iterator[Block]:
        return reading.scan(self._connections, clause(where), self.space.width)

    def digests_of(self, ids: Sequence[str]) -> dict[str, str]:
        return reading.digests_of(self._connections, ids)

    def ids_of(self, digests: Sequence[str]) -> dict[str, str]:
        return reading.ids_of(self._connections, digests)

    def count(self, where: Where | None = None) -> int:
        if where is not None:
            return reading.count(self._connections, clause(where))
        with self._connections.borrowed() as connection:
            return tables.count(connection, self._place, self._entry.number)

    def var_range(self) -> tuple[float, float]:
        return reading.var_range(self._connections)

    def refresh(self) -> bool:
        """True after another wrote or compacted; own writes do not count."""
        with self._connections.borrowed() as connection:
            entry = tables.entry(connection, self._place)
            index = vector_index.present(connection, self._place, self._entry.kind)
            warnings = about.warnings(connection, self._place, entry, index)
        if entry.number != self._entry.number:
            raise tables.made_anew(self._place)
        changed = (entry.changes, index) != (self._seen, self._index)
        self._seen, self._index, self._warnings = entry.changes, index, warnings
        return changed

    def newest(self) -> Self | None:
        """Itself, if others wrote or there is something else to warn of: it shows what is there."""
        before = self.warnings
        return self if self.refresh() or self.warnings != before else None

    def compact(self) -> None:
        """Builds the index over vectors where the kind wants one that is missing or outgrown.

        Searches go on meanwhile, writes wait until it is built.
        """
        with self._connections.transaction() as connection:
            vector_index.ensure(
                connection, self._place, kind=self._entry.kind, width=self.space.width
            )
        with self._connections.transaction() as connection:
            tables.count_anew(connection, self._place, self._entry.number)
        with self._connections.borrowed() as connection:
            connection.execute(tables.named(SQL("VACUUM (ANALYZE) {table}"), self._place))
            self._index = vector_index.present(connection, self._place, self._entry.kind)
            self._warnings = about.warnings(connection, self._place, self._entry, self._index)

    def describe(self) -> dict[str, Any]:
        with self._connections.borrowed() as connection:
            facts = about.describe(connection, self._place, self._entry, self._index)
        return {**facts, "rows": self.count()}

    def verify(self) -> list[str]:
        with self._connections.snapshot() as connection:
            return checking.check(connection, self._place, self._entry)

    def drop(self) -> None:
        """Remove the index and all its rows from the database."""
        with self._connections.transaction() as connection:
            tables.drop(connection, self._place, self._entry.number)
        self.close()

    def close(self) -> None:
        self._connections.close()

    def _note_change(self, connection: Connection, more: int) -> int:
        return tables.note_change(connection, self._place, self._entry.number, more=more)

    def _see(self, changes: int) -> None:
        """An own write is no news, unless others wrote since the last look."""
        if changes == self._seen + 1:
            self._seen = changes
