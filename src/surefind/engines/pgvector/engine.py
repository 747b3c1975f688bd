"""Engine in a PostgreSQL table with the extension pgvector."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, LiteralString, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.engines.base import Block, Found, Rows, Space
from surefind.engines.filters import VAR, Condition, Metadata, Where
from surefind.engines.pgvector import schema
from surefind.engines.pgvector.connection import (
    SQL,
    Composable,
    Connections,
    Placeholder,
    Session,
    connect,
    from_sent,
    parse,
    replaced,
    to_sent,
)
from surefind.engines.pgvector.schema import VectorIndex
from surefind.engines.server import IndexRecord, ServerEngine, StoredRow, opened, storable

NUMBERS_AT_ONCE = 2**21  # of the vectors in one statement that writes or reads: 8 MB

# All queries in one statement, and vectors only of hits: 1.4 times as fast as one
# statement per query, three times when k is large. Names that no attached table has.
NEAREST: LiteralString = """
SELECT surefind_query, surefind_distance, {key}, {var}, {vector}
FROM (
    SELECT surefind_query, surefind_row, surefind_distance
    FROM unnest(%(vectors)b::vector[]) WITH ORDINALITY AS asked (surefind_vector, surefind_query)
    CROSS JOIN LATERAL (
        SELECT {row} AS surefind_row, {distance} AS surefind_distance
        FROM {table} AS gallery WHERE {where} ORDER BY {order} LIMIT %(k)s::bigint
    ) AS nearest
) AS found JOIN {table} AS kept ON {row} = surefind_row
"""
SETTINGS: LiteralString = """
SELECT set_config('jit', 'off', false),
    set_config('hnsw.ef_search', %(effort)s, false),
    set_config('hnsw.iterative_scan', 'strict_order', false),
    set_config('ivfflat.probes', %(probes)s, false),
    set_config('ivfflat.iterative_scan', 'relaxed_order', false)
"""
# Twice as quick as COPY into a temporary table and from there.
PUT: LiteralString = """
WITH put AS (
INSERT INTO {table} (id, vector, var, digest, metadata)
SELECT * FROM unnest(%(ids)b::text[], %(vectors)b::vector[], %(var)b::float8[],
    %(digests)b::text[], %(metadata)b::text[]) AS given (id, vector, var, digest, metadata)
ORDER BY id COLLATE "C"
ON CONFLICT (id) DO UPDATE SET vector = excluded.vector, var = excluded.var,
    digest = excluded.digest, metadata = excluded.metadata
RETURNING xmax = 0 AS new -- a row that was there was locked first
) SELECT count(*) FILTER (WHERE new) FROM put
"""
# Rows are locked in the order of their ids: two writers cannot deadlock.
REMOVE: LiteralString = """
WITH known AS (SELECT id FROM {table} WHERE id = ANY(%s) ORDER BY id FOR UPDATE), gone AS (
    DELETE FROM {table} AS kept USING known WHERE kept.id = known.id RETURNING kept.id
) SELECT count(*) FROM gone
"""
# A database may be set to acknowledge before anything is on the disk.
DURABLE: LiteralString = """
SELECT set_config('synchronous_commit', 'on', true)
WHERE current_setting('synchronous_commit') = 'off'
"""


def create(place: str, space: Space, facts: Mapping[str, Any], *, kind: str) -> "PgvectorEngine":
    """Create an empty index in one transaction.

    Searches are exhaustive until `compact` builds a graph or cells: to build them from many rows
    at once is far quicker than row by row.
    """
    with connect(parse(place)) as session:
        schema.create_tables(session, space, facts, kind)
    return open_place(place)


def open_place(place: str) -> "PgvectorEngine":
    return opened(PgvectorEngine, Connections(parse(place)))


def describe_server(place: str, *, seconds: int) -> str:
    table = parse(place)
    table.parameters["connect_timeout"] = str(seconds)
    with connect(table) as session:
        vector = schema.extension_version(session)
        offered = f"pgvector {vector}" if vector else "pgvector is added with the first index"
        return f"PostgreSQL {session.connection.info.server_version // 10000}, {offered}"


Columns = dict[str, Composable]  # `key` is `row` as it is returned; `metadata` is JSON as text
OWN_COLUMNS: Columns = {
    "row": SQL("key"),
    "key": SQL("key"),
    "id": SQL("id"),
    "vector": SQL("vector"),
    "distance": SQL("vector <-> surefind_vector"),
    "var": SQL("var"),
    "digest": SQL("coalesce(digest, '')"),
    "metadata": SQL("metadata"),
}


class TableReader(ServerEngine):
    """Search and reads of a table with vectors."""

    _keys = "i8"  # type of the keys
    _squared: Callable[[NDArray[np.float64]], NDArray[np.float64]] = np.square  # distances as the server has them

    def __init__(
        self, record: IndexRecord, connections: Connections, columns: Columns, index: VectorIndex | None
    ) -> None:
        super().__init__(record, connections.table.shown, connections)
        self._connections, self._columns, self._index = connections, columns, index
        self._statements: dict[bool, tuple[bytes, dict[str, Any]]] = {}  # without a filter; by index or not

    @property
    def max_k(self) -> int:
        return 1_000_000

    def search(self, vectors: NDArray[np.float32], k: int, where: Where | None = None) -> Found:
        """Return the k nearest; queries with fewer by the index are repeated without it."""
        index = self._index
        hits = self._search_hits(vectors, k, where, index)
        counts = np.bincount(hits["query"], minlength=len(vectors))
        if index is not None and (short := np.flatnonzero(counts < k)).size:
            again = self._search_hits(vectors[short], k, where, None)
            again["query"] = short[again["query"]]
            hits = np.concatenate([hits[counts[hits["query"]] >= k], again])
            counts = np.bincount(hits["query"], minlength=len(vectors))
        if not len(hits):
            self.count(where)  # an error if a field is unknown
        keys = np.unique(hits["key"], return_inverse=True)[1]
        hits = hits[np.lexsort((keys, hits["distance"], hits["query"]))]
        found = np.zeros((len(vectors), int(counts.max(initial=0))), hits.dtype)
        found["distance"], found["var"] = np.inf, 1
        row = hits["query"]
        found[row, np.arange(len(row)) - (np.cumsum(counts) - counts)[row]] = hits
        keys, distance, near, var = (np.ascontiguousarray(found[its]) for its in ("key", "distance", "vector", "var"))
        return Found(keys, distance.astype(np.float32), near, var)

    def _search_hits(
        self, vectors: NDArray[np.float32], k: int, where: Where | None, index: VectorIndex | None
    ) -> NDArray[np.void]:
        """Return the hits of all queries, in no order."""
        lists = index.lists if index else 1
        effort = {
            "effort": str(min(1000, max(200, 2 * k))),
            "probes": str(max(1, min(lists, max(10, 2 * math.isqrt(lists))))),
        }
        with self._connections.tuned(SETTINGS, effort) as session:
            statement, values = self._nearest(session, where, indexed=index is not None)
            rows = session.run(statement, {"vectors": to_sent(vectors), "k": k, **values}, binary=True)
        numbers = [("query", "i8"), ("distance", "f8"), ("key", self._keys), ("var", "f8")]
        hits = np.empty(len(rows), [*numbers, ("vector", "f4", (vectors.shape[1],))])
        if rows:
            query, apart, hits["key"], hits["var"], received = zip(*rows, strict=True)
            hits["query"] = np.array(query) - 1
            hits["distance"] = self._squared(np.array(apart, np.float64))
            hits["vector"] = self._vectors(received)
        return np.asarray(hits[np.isfinite(hits["distance"])])  # zeros have no cosine

    def _nearest(self, session: Session, where: Where | None, *, indexed: bool) -> tuple[bytes, dict[str, Any]]:
        """Return the statement of a search and its parameters; to compose it takes longer than to send it."""
        if where is None and indexed in self._statements:
            return self._statements[indexed]
        wanted, distance = self._clause(where), self._columns["distance"]
        exhaustive = SQL("({}) + 0").format(distance)  # no index has this
        names = {"where": wanted.text, "order": distance if indexed else exhaustive, **self._columns}
        found = session.compose(NEAREST, **names).as_bytes(session.connection), wanted.parameters
        if where is None:
            self._statements[indexed] = found
        return found

    def _read(self, column: str, values: list[Any]) -> dict[Any, StoredRow]:
        statement: LiteralString = "SELECT {of}, {id}, {vector}, {var}, {digest}, {metadata} FROM {table} WHERE {which}"
        names = {**self._columns, "of": self._columns[column], "which": self._among(column)}
        with self._connections.borrowed() as session:
            found = session.run(statement, [self._known(values)], binary=True, **names)
        if not found:
            return {}
        vectors = self._vectors([row[2] for row in found])
        return {
            key: (name, vector, var, digest, self._metadata(text))
            for (key, name, _, var, digest, text), vector in zip(found, vectors, strict=True)
        }

    def _among(self, column: str) -> Composable:
        """Return the condition that a key or id is one of the parameter's."""
        return SQL("{} = ANY(%s)").format(self._columns[column])

    def _known(self, values: list[Any]) -> list[Any]:
        """Return keys or ids that can be compared with those of rows."""
        return values

    def scan(self, where: Where | None = None) -> Iterator[Block]:
        """Yield blocks from a connection that is given back even if not all are taken."""
        wanted, width = self._clause(where), self.space.width
        with self._connections.snapshot() as session, session.connection.cursor("surefind_scan", binary=True) as cursor:
            statement = "SELECT {key}, {vector}, {var} FROM {table} WHERE {where}"
            names = {**self._columns, "where": wanted.text}
            cursor.execute(session.compose(statement, **names), wanted.parameters)
            empty = True
            while found := cursor.fetchmany(max(1, NUMBERS_AT_ONCE // width)):
                empty = False
                keys, vectors, var = zip(*found, strict=True)
                yield Block(np.array(keys, self._keys), self._vectors(vectors), np.array(var))
        if empty:
            self.count(where)

    def _count(self, where: Where | None) -> int:
        wanted = self._clause(where)
        statement = "SELECT count(*) FROM {table} WHERE {where}"
        with self._connections.borrowed() as session:
            return int(session.run(statement, wanted.parameters, where=wanted.text)[0][0])

    def _clause(self, where: Where | None) -> "Clause":
        return clause(where)

    def _vectors(self, received: Sequence[bytes]) -> NDArray[np.float32]:
        return self._scaled(from_sent(received, self.space.width))

    def _metadata(self, text: str) -> Metadata:
        return dict(json.loads(text))


class PgvectorEngine(TableReader):
    """`Engine` in a PostgreSQL table."""

    def __init__(self, connections: Connections) -> None:
        with connections.borrowed() as session:
            record, self._seen = schema.read_record(session)
            schema.check_extension(session)
            index = schema.vector_index(session, record.kind)
            self._warnings = schema.warnings(session, record, index)
        super().__init__(record, connections, OWN_COLUMNS, index)

    @property
    def _kind(self) -> str:  # type: ignore[override]
        return self._index.kind if self._index else "flat"

    @property
    def revision(self) -> tuple[str, int]:
        with self._connections.borrowed() as session:
            record, changes = schema.read_record(session)
        return str(record.number), changes

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._warnings

    def add(self, rows: Rows) -> None:
        if not len(rows):
            return
        new, size = 0, max(1, NUMBERS_AT_ONCE // self.space.width)
        vectors, var = self.space.gallery_vectors(rows.embeddings), self.space.var(rows.embeddings)
        order = sorted(range(len(rows)), key=lambda row: rows.ids[row].encode())
        with self._connections.transaction() as session:
            session.run(DURABLE)
            for start in range(0, len(order), size):
                chosen = order[start : start + size]
                values = {
                    "ids": [rows.ids[row] for row in chosen],
                    "vectors": to_sent(vectors[chosen]),
                    "var": var[chosen].tolist(),
                    "digests": [rows.digests[row] or None for row in chosen],
                    "metadata": [json.dumps(dict(rows.metadata[row]), ensure_ascii=False) for row in chosen],
                }
                new += session.number(PUT, values)
            changes = schema.note_change(session, self._record.number, more=new)
        if self._seen == changes - 1:  # else others wrote since the last refresh
            self._seen = changes

    def remove(self, ids: Sequence[str]) -> int:
        with self._connections.transaction() as session:
            session.run(DURABLE)
            removed = session.number(REMOVE, [storable(ids)])
            if not removed:
                return 0
            changes = schema.note_change(session, self._record.number, more=-removed)
        if self._seen == changes - 1:  # else others wrote since the last refresh
            self._seen = changes
        return removed

    def digests_of(self, ids: Sequence[str]) -> dict[str, str]:
        statement = "SELECT id, coalesce(digest, '') FROM {table} WHERE id = ANY(%s)"
        with self._connections.borrowed() as session:
            return dict(session.run(statement, [storable(ids)]))

    def ids_of(self, digests: Sequence[str]) -> dict[str, str]:
        statement = "SELECT digest, min(id) FROM {table} WHERE digest = ANY(%s) GROUP BY digest"
        with self._connections.borrowed() as session:
            return dict(session.run(statement, [storable(digests)]))

    def _count(self, where: Where | None) -> int:
        if where is not None:
            return super()._count(where)
        with self._connections.borrowed() as session:
            return schema.count(session, self._record.number)

    def _fields(self) -> list[str]:
        with self._connections.borrowed() as session:
            names = session.run("SELECT DISTINCT jsonb_object_keys(fields) FROM {table}")
        return [name for (name,) in names]

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
                "SELECT current_setting('server_version'), pg_total_relation_size(to_regclass(%s))", [table.quoted]
            )
            extension = schema.extension_version(session)
        return {
            "engine": "pgvector",
            **super().describe(),
            "table": table.name,
            "asked_kind": self._record.kind,
            "bytes": size,
            "server": f"PostgreSQL {server}",
            "extension": f"pgvector {extension}",
        }

    def verify(self) -> list[str]:
        with self._connections.snapshot() as session:
            return schema.check(session, self._record)


class Clause(NamedTuple):
    """SQL after WHERE, and its named parameters."""

    text: Composable
    parameters: dict[str, Any]


def clause(where: Where | None) -> Clause:
    """Return SQL that selects the rows for which `Where.holds`; values are parameters only.

    jsonb is compared as jsonb, texts by code point. Equality is containment, which the GIN index
    supports: 1 equals 1.0, true does not equal 1.
    """

    def test(condition: Condition, placed: Callable[[object], Composable]) -> Composable:
        field, values = condition.field, condition.values
        op = SQL("<>" if condition.op == "!=" else condition.op)  # a key of COMPARE
        if field == VAR:
            numbers = placed([float(value) for value in values])
            if condition.op == "in":
                return SQL("var = ANY({}::float8[])").format(numbers)
            return SQL("var {} ({}::float8[])[1]").format(op, numbers)
        kind = "boolean" if condition.kind == "bool" else condition.kind
        like = SQL("jsonb_typeof(fields -> {}::text) = {}").format(placed(field), placed(kind))
        if condition.op in ("=", "in", "!="):
            contained = [placed(json.dumps({field: value})) for value in values]
            same = SQL(" OR ").join(SQL("fields @> {}::jsonb").format(one) for one in contained)
            found = SQL("NOT ({})" if condition.op == "!=" else "({})").format(same)
        elif condition.kind == "string":
            text = SQL('(fields ->> {}::text) COLLATE "C" {} {}::text')
            found = text.format(placed(field), op, placed(values[0]))
        else:
            number = SQL("(fields -> {}::text) {} {}::jsonb")
            found = number.format(placed(field), op, placed(json.dumps(values[0])))
        return SQL("({} AND {})").format(like, found)

    return joined(where, test)


def joined(where: Where | None, test: Callable[[Condition, Callable[[object], Composable]], Composable]) -> Clause:
    """Return SQL of all conditions; `test` is given one, and a function that places a value."""
    parameters: dict[str, Any] = {}

    def placed(value: object) -> Placeholder:
        name = f"value_{len(parameters)}"
        parameters[name] = value
        return Placeholder(name)

    tests = [test(one, placed) for one in (where.conditions if where else ())]
    return Clause(SQL(" AND ").join(tests) if tests else SQL("true"), parameters)
