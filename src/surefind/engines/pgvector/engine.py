"""Engine in a PostgreSQL table with the extension pgvector."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, LiteralString

import numpy as np
from numpy.typing import NDArray

from surefind.engines.base import Block, Found, Rows
from surefind.engines.filters import Where
from surefind.engines.pgvector import queries, schema
from surefind.engines.pgvector.connection import (
    Connections,
    Identifier,
    connect,
    from_sent,
    parse,
    replaced,
)
from surefind.engines.server import ServerEngine, StoredRow, storable
from surefind.engines.space import Space

MOST = 1_000_000


def create(place: str, space: Space, facts: Mapping[str, Any], *, kind: str) -> "PgvectorEngine":
    """Create an empty index in one transaction.

    Searches are exhaustive until `compact` builds a graph or cells: to build them from many rows
    at once is far quicker than row by row.
    """
    with connect(parse(place)) as session:
        schema.create_tables(session, space, facts, kind)
    return open_place(place)


def open_place(place: str) -> "PgvectorEngine":
    connections = Connections(parse(place))
    try:
        return PgvectorEngine(connections)
    except BaseException:
        connections.close()
        raise


def describe_server(place: str, *, seconds: int) -> str:
    """Return the versions of a server and its extension; an index need not be there."""
    table = parse(place)
    table.parameters["connect_timeout"] = str(seconds)
    with connect(table) as session:
        vector = schema.extension_version(session)
        offered = f"pgvector {vector}" if vector else "pgvector is added with the first index"
        return f"PostgreSQL {session.connection.info.server_version // 10000}, {offered}"


class PgvectorEngine(ServerEngine):
    """`Engine` in a PostgreSQL table."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        with connections.borrowed() as session:
            record, self._seen = schema.read_record(session)
            super().__init__(record, connections.table.shown)
            schema.check_extension(session)
            self._index = schema.vector_index(session, record.kind)
            self._warnings = schema.warnings(session, record, self._index)

    @property
    def exact(self) -> bool:
        return self._index is None

    @property
    def max_k(self) -> int:
        return MOST

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._warnings

    def add(self, rows: Rows) -> None:
        if not len(rows):
            return
        new = 0
        with self._connections.transaction() as session:
            session.run(queries.DURABLE)
            for block in queries.put_blocks(rows, self.space):
                new += session.number(queries.PUT, block)
            changes = schema.note_change(session, self._record.number, more=new)
        self._note_own(changes)

    def remove(self, ids: Sequence[str]) -> int:
        with self._connections.transaction() as session:
            session.run(queries.DURABLE)
            removed = session.number(queries.REMOVE, [storable(ids)])
            if not removed:
                return 0
            changes = schema.note_change(session, self._record.number, more=-removed)
        self._note_own(changes)
        return removed

    def search(self, vectors: NDArray[np.float32], k: int, where: Where | None = None) -> Found:
        clause = queries.clause(where)
        return queries.search(self._connections, vectors, k=k, clause=clause, index=self._index)

    def _read(self, column: str, values: list[Any]) -> dict[Any, StoredRow]:
        statement: LiteralString = (
            "SELECT {column}, id, vector, var, coalesce(digest, ''), metadata"
            " FROM {table} WHERE {column} = ANY(%s)"
        )
        with self._connections.borrowed() as session:
            found = session.run(statement, [values], binary=True, column=Identifier(column))
        return {
            key: StoredRow(
                name, from_sent([sent], self.space.width)[0], var, digest, json.loads(text)
            )
            for key, name, sent, var, digest, text in found
        }

    def scan(self, where: Where | None = None) -> Iterator[Block]:
        """Yield blocks from a connection that is given back even if not all are taken."""
        clause, width = queries.clause(where), self.space.width
        with (
            self._connections.snapshot() as session,
            session.connection.cursor("surefind_scan", binary=True) as cursor,
        ):
            statement = "SELECT key, vector, var FROM {table} WHERE {where}"
            cursor.execute(session.compose(statement, where=clause.text), clause.parameters)
            while found := cursor.fetchmany(max(1, queries.NUMBERS_AT_ONCE // width)):
                keys, vectors, var = zip(*found, strict=True)
                yield Block(np.array(keys), from_sent(vectors, width), np.array(var))

    def digests_of(self, ids: Sequence[str]) -> dict[str, str]:
        statement = "SELECT id, coalesce(digest, '') FROM {table} WHERE id = ANY(%s)"
        with self._connections.borrowed() as session:
            return dict(session.run(statement, [storable(ids)]))

    def ids_of(self, digests: Sequence[str]) -> dict[str, str]:
        statement = "SELECT digest, min(id) FROM {table} WHERE digest = ANY(%s) GROUP BY digest"
        with self._connections.borrowed() as session:
            return dict(session.run(statement, [storable(digests)]))

    def count(self, where: Where | None = None) -> int:
        with self._connections.borrowed() as session:
            if where is None:
                return schema.count(session, self._record.number)
            clause = queries.clause(where)
            statement = "SELECT count(*) FROM {table} WHERE {where}"
            return int(session.run(statement, clause.parameters, where=clause.text)[0][0])

    def refresh(self) -> bool:
        """Return whether another wrote or compacted; own writes do not count."""
        with self._connections.borrowed() as session:
            record, changes = schema.read_record(session)
            index = schema.vector_index(session, record.kind)
            warnings = schema.warnings(session, record, index)
        if record.number != self._record.number:
            raise replaced(self._connections.table)
        changed = (changes, index) != (self._seen, self._index)
        self._seen, self._index, self._warnings = changes, index, warnings
        return changed

    def compact(self) -> None:
        """Build the vector index if it is missing or outgrown; searches go on, writers wait."""
        kind, number = self._record.kind, self._record.number
        with self._connections.transaction() as session:
            schema.ensure_vector_index(session, kind=kind, width=self.space.width)
        with self._connections.transaction() as session:
            noted = schema.count(session, number, lock=True)
            found = session.number(schema.COUNT)
            if found != noted:
                schema.note_change(session, number, more=found - noted)
        with self._connections.borrowed() as session:
            session.run("VACUUM (ANALYZE) {table}")
            self._index = schema.vector_index(session, kind)
            self._warnings = schema.warnings(session, self._record, self._index)

    def describe(self) -> dict[str, Any]:
        table = self._connections.table
        with self._connections.borrowed() as session:
            ((server, size),) = session.run(
                "SELECT current_setting('server_version'),"
                " pg_total_relation_size(to_regclass(quote_ident(%s)))",
                [table.name],
            )
            extension = schema.extension_version(session)
        return {
            "engine": "pgvector",
            "place": table.shown,
            "table": table.name,
            "kind": self._index.kind if self._index else "flat",
            "asked_kind": self._record.kind,
            "bytes": size,
            "server": f"PostgreSQL {server}",
            "extension": f"pgvector {extension}",
            "rows": self.count(),
        }

    def verify(self) -> list[str]:
        with self._connections.snapshot() as session:
            return schema.check(session, self._record)

    def drop(self) -> None:
        """Remove the index and all its rows from the database."""
        with self._connections.transaction() as session:
            session.run(schema.ONE_MAKER)
            schema.note_change(session, self._record.number, more=0)  # fails if it was replaced
            session.run(schema.SHORT_WAIT)
            session.run("DROP TABLE IF EXISTS {table}")
            session.run("DELETE FROM {registry} WHERE name = %s", [session.table.name])
        self.close()

    def close(self) -> None:
        self._connections.close()

    def _note_own(self, changes: int) -> None:
        """Count an own write as seen, unless others wrote since the last refresh."""
        if changes == self._seen + 1:
            self._seen = changes
