"""An engine in a PostgreSQL database, which others may read and write at the same time."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.engines.base import Block, Found, Rows
from surefind.engines.filters import Where
from surefind.engines.pgvector import queries, schema
from surefind.engines.pgvector.connection import (
    Connections,
    connect,
    from_sent,
    parse,
    server_errors,
)
from surefind.engines.server import ServerEngine, StoredRow, storable
from surefind.engines.space import Space

MOST = 1_000_000


def create(place: str, space: Space, facts: Mapping[str, Any], *, kind: str) -> "PgvectorEngine":
    """In one transaction: an index is there in full, or not at all.

    Whatever its kind, it looks at all rows until `compact` has built a graph or cells: to build
    them from many rows at once is far quicker than row by row.
    """
    where = parse(place)
    with server_errors(where), connect(where) as connection, connection.transaction():
        schema.lock_tables(connection)
        schema.make(connection, where, space=space, facts=facts, kind=kind)
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
    where = parse(place)
    where.parameters["connect_timeout"] = str(seconds)
    with server_errors(where), connect(where) as connection:
        vector = schema.extension_version(connection)
        offered = f"pgvector {vector}" if vector else "pgvector is added with the first index"
        return f"PostgreSQL {connection.info.server_version // 10000}, {offered}"


class PgvectorEngine(ServerEngine):
    """`Engine` in a PostgreSQL table."""

    def __init__(self, connections: Connections) -> None:
        self._connections, self._place = connections, connections.place
        with connections.borrowed() as connection:
            record, self._seen = schema.read_record(connection, self._place)
            super().__init__(record, self._place.shown)
            schema.check_extension(connection, self._place)
            self._index = schema.vector_index(connection, self._place, record.kind)
            self._warnings = schema.warnings(connection, self._place, record, self._index)

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
        self.space.check(rows.embeddings)
        new = 0
        with self._connections.transaction() as connection:
            connection.execute(queries.DURABLE)
            for block in queries.put_blocks(rows, self.space):
                put = schema.named(self._place, queries.PUT)
                new += connection.execute(put, block).fetchall()[0][0]
            changes = schema.note_change(connection, self._place, self._record.number, more=new)
        self._see(changes)

    def remove(self, ids: Sequence[str]) -> int:
        with self._connections.transaction() as connection:
            connection.execute(queries.DURABLE)
            remove = schema.named(self._place, queries.REMOVE)
            removed = connection.execute(remove, [storable(ids)]).rowcount
            if not removed:
                return 0
            number = self._record.number
            changes = schema.note_change(connection, self._place, number, more=-removed)
        self._see(changes)
        return removed

    def search(self, vectors: NDArray[np.float32], k: int, where: Where | None = None) -> Found:
        clause = queries.clause(where)
        return queries.search(self._connections, vectors, k=k, clause=clause, index=self._index)

    def _read(self, column: str, values: list[Any]) -> dict[Any, StoredRow]:
        return queries.read_rows(self._connections, column, values, self.space.width)

    def scan(self, where: Where | None = None) -> Iterator[Block]:
        """On a connection of its own, which is given back even if not all blocks are taken."""
        clause, width = queries.clause(where), self.space.width
        statement = schema.named(
            self._place, "SELECT key, vector, var FROM {table} WHERE {where}", where=clause.text
        )
        with (
            self._connections.snapshot() as connection,
            connection.cursor("surefind_scan", binary=True) as cursor,
        ):
            cursor.execute(statement, clause.parameters)
            while found := cursor.fetchmany(max(1, queries.NUMBERS_AT_ONCE // width)):
                keys, vectors, var = zip(*found, strict=True)
                yield Block(np.array(keys), from_sent(vectors, width), np.array(var))

    def digests_of(self, ids: Sequence[str]) -> dict[str, str]:
        statement = schema.named(
            self._place, "SELECT id, coalesce(digest, '') FROM {table} WHERE id = ANY(%s)"
        )
        with self._connections.borrowed() as connection:
            return dict(connection.execute(statement, [storable(ids)]).fetchall())

    def ids_of(self, digests: Sequence[str]) -> dict[str, str]:
        statement = schema.named(
            self._place,
            "SELECT digest, min(id) FROM {table} WHERE digest = ANY(%s) GROUP BY digest",
        )
        with self._connections.borrowed() as connection:
            return dict(connection.execute(statement, [storable(digests)]).fetchall())

    def count(self, where: Where | None = None) -> int:
        with self._connections.borrowed() as connection:
            if where is None:
                return schema.count(connection, self._place, self._record.number)
            clause = queries.clause(where)
            statement = schema.named(
                self._place, "SELECT count(*) FROM {table} WHERE {where}", where=clause.text
            )
            return int(connection.execute(statement, clause.parameters).fetchall()[0][0])

    def refresh(self) -> bool:
        """True after another wrote or compacted; own writes do not count."""
        with self._connections.borrowed() as connection:
            record, changes = schema.read_record(connection, self._place)
            index = schema.vector_index(connection, self._place, record.kind)
            warnings = schema.warnings(connection, self._place, record, index)
        if record.number != self._record.number:
            raise schema.made_anew(self._place)
        changed = (changes, index) != (self._seen, self._index)
        self._seen, self._index, self._warnings = changes, index, warnings
        return changed

    def compact(self) -> None:
        """Builds the index over vectors where the kind wants one that is missing or outgrown.

        Searches go on meanwhile, writes wait until it is built.
        """
        kind = self._record.kind
        with self._connections.transaction() as connection:
            schema.ensure_vector_index(connection, self._place, kind=kind, width=self.space.width)
        with self._connections.transaction() as connection:
            schema.count_anew(connection, self._place, self._record.number)
        with self._connections.borrowed() as connection:
            connection.execute(schema.named(self._place, "VACUUM (ANALYZE) {table}"))
            self._index = schema.vector_index(connection, self._place, kind)
            self._warnings = schema.warnings(connection, self._place, self._record, self._index)

    def describe(self) -> dict[str, Any]:
        with self._connections.borrowed() as connection:
            ((server, size),) = connection.execute(
                "SELECT current_setting('server_version'),"
                " pg_total_relation_size(to_regclass(quote_ident(%s)))",
                [self._place.table],
            ).fetchall()
            extension = schema.extension_version(connection)
        return {
            "engine": "pgvector",
            "place": self._place.shown,
            "table": self._place.table,
            "kind": self._index.kind if self._index else "flat",
            "asked_kind": self._record.kind,
            "bytes": size,
            "server": f"PostgreSQL {server}",
            "extension": f"pgvector {extension}",
            "rows": self.count(),
        }

    def verify(self) -> list[str]:
        with self._connections.snapshot() as connection:
            return schema.check(connection, self._place, self._record)

    def drop(self) -> None:
        """Remove the index and all its rows from the database."""
        with self._connections.transaction() as connection:
            schema.drop(connection, self._place, self._record.number)
        self.close()

    def close(self) -> None:
        self._connections.close()

    def _see(self, changes: int) -> None:
        """An own write is no news, unless others wrote since the last look."""
        if changes == self._seen + 1:
            self._seen = changes
