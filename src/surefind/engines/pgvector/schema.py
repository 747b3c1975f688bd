"""Tables of an index: its rows, the registry of all indexes; the vector index."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, LiteralString, NamedTuple

from surefind.engines.base import EngineError, Space
from surefind.engines.pgvector.connection import REGISTRY, SQL, DatabaseError, Identifier, Literal, Session
from surefind.engines.server import IndexRecord
from surefind.errors import InvalidArgument

SCHEMA = 1  # layout of the tables
WIDEST_INDEXED = 2_000  # numbers in a vector
MANY = 100_000  # rows from which `auto` has a graph
SLOW = 10_000  # rows from which a missing vector index is worth a warning
METHODS = {"hnsw": "hnsw", "ivfflat": "ivf"}

# `metadata` is text, as jsonb would turn 1e20 into an integer; `fields` is for conditions. By
# default vectors of more than 500 numbers are moved out of the row (TOAST), and exhaustive search
# takes ten times as long.
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
INDEXES: LiteralString = """
SELECT relname, amname, coalesce(array_to_string(reloptions, ','), ''), indisvalid AND indisready
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
WHERE indrelid = to_regclass(%s)
"""
COUNT: LiteralString = "SELECT count(*) FROM {table}"
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
    """Vector index of the table, as built."""

    kind: str  # hnsw or ivf
    lists: int  # cells of ivf


def create_tables(session: Session, space: Space, facts: Mapping[str, Any], kind: str) -> None:
    if kind in BUILD and space.width > WIDEST_INDEXED:
        raise InvalidArgument(
            "kind",
            expected=f"flat or auto, as {kind} takes vectors of at most {WIDEST_INDEXED} numbers",
            got=f"{kind} with {space.width}",
        )
    session.run("SELECT pg_advisory_xact_lock(7309453628123457)")  # one at a time creates tables
    session.run("CREATE EXTENSION IF NOT EXISTS vector")
    check_extension(session)
    name = session.table.name
    if session.run("SELECT to_regclass(%s) IS NOT NULL", [session.table.quoted]) == [(True,)]:
        raise EngineError(
            f"there is a table {name} already at {session.table.shown}",
            fix="open it, or choose another name with ?table=...",
        )
    for statement in TABLES:
        session.run(statement, width=Literal(space.width))
    session.run("DELETE FROM {registry} WHERE name = %s", [name])
    kept = {"family": space.family, "dim": space.dim, "ranking": space.ranking}
    session.run(
        "INSERT INTO {registry} (name, schema, space, facts, kind) VALUES (%s, %s, %s, %s, %s)",
        [name, SCHEMA, json.dumps(kept), json.dumps(dict(facts)), kind],
    )


def extension_version(session: Session) -> str | None:
    found = session.run("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    return str(found[0][0]) if found else None


def check_extension(session: Session) -> None:
    found = extension_version(session)
    if found is None or tuple(map(int, re.findall(r"\d+", found)[:2])) < (0, 8):  # no iterative scans
        has = "no extension pgvector" if found is None else f"pgvector {found}, which is too old"
        raise EngineError(
            f"the database of {session.table.shown} has {has}",
            fix="install pgvector 0.8 or newer, then run CREATE EXTENSION vector, or ALTER EXTENSION vector UPDATE",
        )


def read_record(session: Session) -> tuple[IndexRecord, int]:
    name, shown = session.table.name, session.table.shown
    exist = session.run("SELECT to_regclass(%s), to_regclass(%s)", [REGISTRY, session.table.quoted])
    found = None not in exist[0] and session.run(
        "SELECT schema, number, space, facts, kind, changes FROM {registry} WHERE name = %s", [name]
    )
    if not found:
        raise EngineError(
            f"there is no index {name} at {shown}", fix=f"create it: surefind index IMAGES -o INDEX --engine {shown!r}"
        )
    ((schema, number, space, facts, kind, changes),) = found
    if schema != SCHEMA:
        raise EngineError(
            f"{shown} was made by another version of surefind: its tables have layout "
            f"{schema}, this version knows {SCHEMA}",
            fix="update surefind" if schema > SCHEMA else "create the index again",
        )
    return IndexRecord(Space(**json.loads(space)), json.loads(facts), kind, number), changes


def note_change(session: Session, number: int | str, *, more: int) -> int:
    """Count a write, last in its transaction; return how many there have been.

    Other writers wait here until this one has committed, which is a moment.
    """
    return session.number(
        "UPDATE {registry} SET changes = changes + 1, rows = rows + %s"
        " WHERE name = %s AND number = %s RETURNING changes",
        [more, session.table.name, number],
    )


def count(session: Session, number: int | str, *, lock: bool = False) -> int:
    """Return the number of rows that writers noted; `lock` makes them wait."""
    statement: LiteralString = "SELECT rows FROM {registry} WHERE name = %s AND number = %s"
    statement += " FOR NO KEY UPDATE" if lock else ""
    return session.number(statement, [session.table.name, number])


def vector_index(session: Session, kind: str) -> VectorIndex | None:
    """Return the index that searches of an engine of this kind use."""
    if kind != "flat":
        for _, method, options, valid in session.run(INDEXES, [session.table.quoted]):
            if valid and method in METHODS:
                lists = re.search(r"lists=(\d+)", options)
                return VectorIndex(METHODS[method], int(lists[1]) if lists else 0)
    return None


def ensure_vector_index(session: Session, *, kind: str, width: int) -> None:
    """Build the index of this kind, inside a transaction, unless it is there and fits."""
    session.run("LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")  # another process may be building it
    rows, there = session.number(COUNT), vector_index(session, kind)
    if kind == "auto":
        kind = "hnsw" if rows >= MANY and width <= WIDEST_INDEXED else "flat"
    if kind == "flat" or (kind == "ivf" and not rows):
        return
    outgrown = kind == "ivf" and there is not None and not 0.5 <= there.lists / lists_for(rows) <= 2
    if there is None or there.kind != kind or outgrown:
        build(session, rows, kind=kind, width=width)


def build(session: Session, rows: int, *, kind: str, width: int) -> None:
    """Build a vector index and drop the old one; searches go on, writers wait."""
    old = session.run(INDEXES, [session.table.quoted])
    session.run(
        "SELECT set_config('maintenance_work_mem', greatest(%s, setting::bigint)::text, true)"
        " FROM pg_settings WHERE name = 'maintenance_work_mem'",
        [min(rows * (4 * width + 400) // 1024, 1_048_576)],  # kB: vectors and 400 bytes of links, at most 1 GB
    )
    session.run(BUILD[kind], lists=Literal(lists_for(rows)))
    session.run("SELECT set_config('lock_timeout', '30s', true)")
    for name, method, *_ in old:
        if method in METHODS:
            session.run("DROP INDEX {name}", name=Identifier(name))


def lists_for(count: int) -> int:
    """Return the number of cells that pgvector's authors advise."""
    return max(1, count // 1000 if count <= 1_000_000 else math.isqrt(count))


def warnings(session: Session, record: IndexRecord, index: VectorIndex | None) -> tuple[str, ...]:
    """Return what the owner should know; the number of rows is the server's estimate."""
    found, width, kind = [], record.space.width, record.kind
    ((safe, about),) = session.run(
        "SELECT current_setting('fsync') = 'on', reltuples FROM pg_class WHERE oid = to_regclass(%s)",
        [session.table.quoted],
    )
    if not safe:
        found.append("The server runs with fsync=off: rows can be lost when its power fails.")
    if kind == "auto" and width > WIDEST_INDEXED:
        found.append(
            f"Vectors of {width} numbers are too wide for a graph (at most {WIDEST_INDEXED}): "
            "every search is exhaustive."
        )
    elif kind != "flat" and index is None and about >= (MANY if kind == "auto" else SLOW):
        found.append(f"Searches compare about {about:.0f} rows each: compact the index.")
    return tuple(found)


def check(session: Session, record: IndexRecord) -> list[str]:
    """Return what is wrong with the rows: reads all of them, inside a snapshot."""
    tests = SQL(", ").join(SQL("count(*) FILTER (WHERE {})").format(SQL(fault)) for fault in FAULTS.values())
    try:
        ((rows, *bad),) = session.run("SELECT count(*), {tests} FROM {table}", tests=tests)
    except DatabaseError as error:
        if not (error.sqlstate or "").startswith("XX00"):
            raise
        return [f"The server found damage: {error.diag.message_primary}."]
    wrong = [
        f"{f'{number} rows have' if number > 1 else '1 row has'} {fault}."
        for fault, number in zip(FAULTS, bad, strict=True)
        if number
    ]
    noted = count(session, record.number)
    if noted != rows:
        wrong.append(f"{noted} rows are noted where {rows} are: compact the index.")
    indexes = session.run(INDEXES, [session.table.quoted])
    wrong += [f"The index {name} is not valid: REINDEX it." for name, _, _, ok in indexes if not ok]
    return wrong
