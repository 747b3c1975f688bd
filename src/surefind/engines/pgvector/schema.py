"""The tables of an index: one with its rows, one that lists all indexes; the vector index."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, LiteralString, NamedTuple

from surefind.engines.base import EngineError
from surefind.engines.pgvector.connection import (
    REGISTRY,
    SQL,
    Composable,
    Composed,
    Connection,
    DatabaseError,
    Identifier,
    Literal,
    Table,
)
from surefind.engines.server import IndexRecord
from surefind.engines.space import Space
from surefind.errors import InvalidArgument

SCHEMA = 1  # of the tables; raised when their columns change
OLDEST = (0, 8)  # pgvector that goes on along a graph until enough rows satisfy a condition
SHORT_WAIT = "SELECT set_config('lock_timeout', '30s', true)"  # for those who read to finish
ONE_MAKER = 7_309_453_628_123_457  # the advisory lock of those who make and drop tables
WIDEST_INDEXED = 2_000  # numbers in a vector
MANY = 100_000  # rows from which `auto` wants a graph
SLOW = 10_000  # rows from which to look at all of them is not what other kinds are chosen for
METHODS = {"hnsw": "hnsw", "ivfflat": "ivf"}
MOST_MEMORY = 1_048_576  # kB for building
BYTES_OF_LINKS = 400  # of one row in a graph

# `metadata` is given back as it was written (jsonb would turn 1e20 into an integer), `fields` is
# what conditions look at. Rows stay whole as long as they fit on a page: by default vectors of
# more than 500 numbers lie elsewhere, and looking at all of them takes ten times as long.
TABLES: tuple[LiteralString, ...] = (
    """
CREATE TABLE IF NOT EXISTS {registry} (
    name text COLLATE "C" PRIMARY KEY,
    number bigint GENERATED ALWAYS AS IDENTITY, -- tells it from an earlier one of that name
    schema integer NOT NULL,
    space text NOT NULL,
    facts text NOT NULL,
    kind text NOT NULL,
    changes bigint NOT NULL DEFAULT 0, -- one more with every write
    rows bigint NOT NULL DEFAULT 0, -- to count a million takes longer than to search among them
    created timestamptz NOT NULL DEFAULT now()
)""",
    """
CREATE TABLE {table} (
    id text COLLATE "C" PRIMARY KEY,
    key bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    vector vector({width}) NOT NULL,
    var double precision NOT NULL,
    digest text COLLATE "C", -- null where unknown
    metadata text NOT NULL,
    fields jsonb NOT NULL GENERATED ALWAYS AS (metadata::jsonb) STORED
) WITH (toast_tuple_target = 8160)""",
    "CREATE INDEX ON {table} (var)",
    "CREATE INDEX ON {table} (digest) WHERE digest IS NOT NULL",
    "CREATE INDEX ON {table} USING gin (fields jsonb_path_ops)",
)
INDEXES = """
SELECT relname, amname, coalesce(array_to_string(reloptions, ','), ''), indisvalid AND indisready
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
WHERE indrelid = to_regclass(quote_ident(%s))
"""
BUILD: dict[str, LiteralString] = {
    "hnsw": "CREATE INDEX ON {table} USING hnsw (vector vector_l2_ops) WITH (ef_construction=128)",
    "ivf": "CREATE INDEX ON {table} USING ivfflat (vector vector_l2_ops) WITH (lists={lists})",
}
FAULTS: dict[str, LiteralString] = {  # with the condition that a bad row satisfies
    "a vector with numbers that are not finite": "NOT vector_norm(vector) < 'Infinity'",
    "a variance that is not positive and finite": "NOT (var > 0 AND var < 'Infinity')",
    "a digest that is not a sha256": "digest !~ '^[0-9a-f]*$' OR length(digest) <> 64",
    "metadata that are not fields with values": "jsonb_typeof(fields) <> 'object'",
}


class VectorIndex(NamedTuple):
    """One that is there."""

    kind: str  # hnsw or ivf
    lists: int  # cells of ivf


def named(place: Table, statement: LiteralString, **others: Composable) -> Composed:
    """Return the statement with the names of the tables in it."""
    table, registry = Identifier(place.table), Identifier(REGISTRY)
    return SQL(statement).format(table=table, registry=registry, **others)


def lock_tables(connection: Connection) -> None:
    """Until the transaction ends nobody else makes or drops tables."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [ONE_MAKER])


def make(
    connection: Connection, place: Table, *, space: Space, facts: Mapping[str, Any], kind: str
) -> None:
    """Create the tables, inside a transaction that holds the lock on them."""
    if kind in BUILD and space.width > WIDEST_INDEXED:
        raise InvalidArgument(
            "kind",
            expected=f"flat or auto, as {kind} takes vectors of at most {WIDEST_INDEXED} numbers",
            got=f"{kind} with {space.width}",
        )
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    check_extension(connection, place)
    exists = "SELECT to_regclass(quote_ident(%s)) IS NOT NULL"
    if connection.execute(exists, [place.table]).fetchone() == (True,):
        raise EngineError(
            f"there is a table {place.table} already at {place.shown}",
            fix="open it, or choose another name with ?table=...",
        )
    for statement in TABLES:
        connection.execute(named(place, statement, width=Literal(space.width)))
    connection.execute(named(place, "DELETE FROM {registry} WHERE name = %s"), [place.table])
    kept = {"family": space.family, "dim": space.dim, "ranking": space.ranking}
    statement = (
        "INSERT INTO {registry} (name, schema, space, facts, kind) VALUES (%s, %s, %s, %s, %s)"
    )
    connection.execute(
        named(place, statement),
        [place.table, SCHEMA, json.dumps(kept), json.dumps(dict(facts)), kind],
    )


def extension_version(connection: Connection) -> str | None:
    found = connection.execute(
        "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    ).fetchone()
    return None if found is None else str(found[0])


def check_extension(connection: Connection, place: Table) -> None:
    found = extension_version(connection)
    if found is None or tuple(map(int, re.findall(r"\d+", found)[:2])) < OLDEST:
        has = "no extension pgvector" if found is None else f"pgvector {found}, which is too old"
        raise EngineError(
            f"the database of {place.shown} has {has}",
            fix="install pgvector 0.8 or newer, then run CREATE EXTENSION vector, or ALTER "
            "EXTENSION vector UPDATE",
        )


def read_record(connection: Connection, place: Table) -> tuple[IndexRecord, int]:
    """Return the description of the index and the number of its changes."""
    exist = "SELECT to_regclass(quote_ident(%s)), to_regclass(quote_ident(%s))"
    found = None
    if None not in (connection.execute(exist, [REGISTRY, place.table]).fetchone() or (None,)):
        statement = named(
            place,
            "SELECT schema, number, space, facts, kind, changes FROM {registry} WHERE name = %s",
        )
        found = connection.execute(statement, [place.table]).fetchone()
    if found is None:
        raise EngineError(
            f"there is no index {place.table} at {place.shown}", fix="create it: surefind index"
        )
    schema, number, space, facts, kind, changes = found
    if schema != SCHEMA:
        raise EngineError(
            f"{place.shown} was made by another version of surefind: its tables have layout "
            f"{schema}, this version knows {SCHEMA}",
            fix="update surefind" if schema > SCHEMA else "create the index again",
        )
    return IndexRecord(Space(**json.loads(space)), json.loads(facts), kind, number), changes


def note_change(connection: Connection, place: Table, number: int | str, *, more: int) -> int:
    """Count a write, last in its transaction; return how many there have been.

    Others who write wait here until this one has committed, which is a moment.
    """
    statement: LiteralString = (
        "UPDATE {registry} SET changes = changes + 1, rows = rows + %s"
        " WHERE name = %s AND number = %s RETURNING changes"
    )
    return _one(connection, place, statement, [more, place.table, number])


def count(connection: Connection, place: Table, number: int | str, *, lock: bool = False) -> int:
    """Return the rows as noted by those who wrote; with `lock` they wait with their last step."""
    statement: LiteralString = "SELECT rows FROM {registry} WHERE name = %s AND number = %s"
    statement += " FOR NO KEY UPDATE" if lock else ""
    return _one(connection, place, statement, [place.table, number])


def count_anew(connection: Connection, place: Table, number: int | str) -> None:
    """Correct the noted number of rows, inside a transaction."""
    noted = count(connection, place, number, lock=True)
    found = _one(connection, place, "SELECT count(*) FROM {table}", [])
    if found != noted:
        note_change(connection, place, number, more=found - noted)


def drop(connection: Connection, place: Table, number: int | str) -> None:
    lock_tables(connection)
    note_change(connection, place, number, more=0)  # not another one of that name
    connection.execute(SHORT_WAIT)
    connection.execute(named(place, "DROP TABLE IF EXISTS {table}"))
    connection.execute(named(place, "DELETE FROM {registry} WHERE name = %s"), [place.table])


def made_anew(place: Table) -> EngineError:
    return EngineError(f"{place.shown} was dropped or made anew meanwhile", fix="open it again")


def _one(connection: Connection, place: Table, statement: LiteralString, values: list[Any]) -> int:
    found = connection.execute(named(place, statement), values).fetchone()
    if found is None:
        raise made_anew(place)
    return int(found[0])


def vector_index(connection: Connection, place: Table, kind: str) -> VectorIndex | None:
    """Return the index that searches of an engine of this kind use."""
    if kind != "flat":
        for _, method, options, valid in connection.execute(INDEXES, [place.table]).fetchall():
            if valid and method in METHODS:
                lists = re.search(r"lists=(\d+)", options)
                return VectorIndex(METHODS[method], int(lists[1]) if lists else 0)
    return None


def ensure_vector_index(connection: Connection, place: Table, *, kind: str, width: int) -> None:
    """Build what the kind wants, inside a transaction, unless it is there and not outgrown."""
    if _wanted(connection, place, kind, width) is None:
        return
    connection.execute(named(place, "LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"))
    wanted = _wanted(connection, place, kind, width)  # or did another build it meanwhile?
    if wanted is not None:
        build(connection, place, kind=wanted, width=width)


def build(connection: Connection, place: Table, *, kind: str, width: int) -> None:
    """Build a vector index; whatever stops it, the old one is there and nothing half-built.

    Searches go on meanwhile; those who write wait.
    """
    rows = _one(connection, place, "SELECT count(*) FROM {table}", [])
    old = connection.execute(INDEXES, [place.table]).fetchall()
    connection.execute(
        "SELECT set_config('maintenance_work_mem', greatest(%s, setting::bigint)::text, true)"
        " FROM pg_settings WHERE name = 'maintenance_work_mem'",
        [min(rows * (4 * width + BYTES_OF_LINKS) // 1024, MOST_MEMORY)],
    )
    connection.execute(named(place, BUILD[kind], lists=Literal(lists_for(rows))))
    connection.execute(SHORT_WAIT)
    for name, method, *_ in old:
        if method in METHODS:
            connection.execute(SQL("DROP INDEX {}").format(Identifier(name)))


def _wanted(connection: Connection, place: Table, kind: str, width: int) -> str | None:
    """The kind of index to build now."""
    rows = _one(connection, place, "SELECT count(*) FROM {table}", [])
    there = vector_index(connection, place, kind)
    if kind == "auto":
        kind = "hnsw" if rows >= MANY and width <= WIDEST_INDEXED else "flat"
    if kind == "flat" or (kind == "ivf" and not rows):
        return None
    if there is None or there.kind != kind:
        return kind
    outgrown = kind == "ivf" and not 0.5 <= there.lists / lists_for(rows) <= 2
    return kind if outgrown else None


def lists_for(count: int) -> int:
    """As pgvector's authors advise."""
    return max(1, count // 1000 if count <= 1_000_000 else math.isqrt(count))


def warnings(
    connection: Connection, place: Table, record: IndexRecord, index: VectorIndex | None
) -> tuple[str, ...]:
    """Return what the owner should know. Cheap: the number of rows is the server's estimate."""
    found = []
    ((careful, about),) = connection.execute(
        "SELECT current_setting('fsync') = 'on', reltuples"
        " FROM pg_class WHERE oid = to_regclass(quote_ident(%s))",
        [place.table],
    ).fetchall()
    if not careful:
        found.append("The server runs with fsync=off: rows can be lost when its power fails.")
    width = record.space.width
    if record.kind == "auto" and width > WIDEST_INDEXED:
        found.append(
            f"Vectors of {width} numbers are too wide for a graph (at most {WIDEST_INDEXED}): "
            "every search looks at every row."
        )
    elif (
        record.kind != "flat"
        and index is None
        and about >= (MANY if record.kind == "auto" else SLOW)
    ):
        found.append(f"About {about:.0f} rows are looked at one by one: compact the index.")
    return tuple(found)


def check(connection: Connection, place: Table, record: IndexRecord) -> list[str]:
    """Return what is wrong with the rows: reads all of them, inside a snapshot."""
    tests = SQL(", ").join(
        SQL("count(*) FILTER (WHERE {})").format(SQL(fault)) for fault in FAULTS.values()
    )
    try:
        statement = named(place, "SELECT count(*), {tests} FROM {table}", tests=tests)
        ((rows, *bad),) = connection.execute(statement).fetchall()
    except DatabaseError as error:
        if not (error.sqlstate or "").startswith("XX00"):
            raise
        return [f"The server found damage: {error.diag.message_primary}."]
    wrong = [
        f"{f'{number} rows have' if number > 1 else '1 row has'} {fault}."
        for fault, number in zip(FAULTS, bad, strict=True)
        if number
    ]
    noted = count(connection, place, record.number)
    if noted != rows:
        wrong.append(f"{noted} rows are noted where {rows} are: compact the index.")
    indexes = connection.execute(INDEXES, [place.table]).fetchall()
    wrong += [f"The index {name} is not valid: REINDEX it." for name, _, _, ok in indexes if not ok]
    return wrong
