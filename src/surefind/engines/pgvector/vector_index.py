"""The index over vectors: when there should be one, whether there is one, how it is built."""

import math
from typing import NamedTuple

from surefind.engines.pgvector.driver import SQL, Connection, Identifier, Literal
from surefind.engines.pgvector.tables import SHORT_WAIT, named
from surefind.engines.pgvector.url import Place
from surefind.errors import InvalidArgument

WIDEST = 16_000  # numbers in a vector
WIDEST_INDEXED = 2_000
MANY = 100_000  # rows from which `auto` wants a graph
SLOW = 10_000  # rows from which to look at all of them is not what other kinds are chosen for
METHODS = {"hnsw": "hnsw", "ivf": "ivfflat"}
MOST_MEMORY = 1_048_576  # kB for building
BYTES_OF_LINKS = 400  # of one row in a graph

PRESENT = """
SELECT method.amname, coalesce(array_to_string(relation.reloptions, ','), '')
FROM pg_index JOIN pg_class relation ON relation.oid = indexrelid
JOIN pg_am method ON method.oid = relam
WHERE indrelid = to_regclass(quote_ident(%s)) AND indisvalid AND method.amname = ANY(%s)
"""
# Of those that are there, valid or not.
NAMES = """
SELECT nspname, relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
JOIN pg_am ON pg_am.oid = relam JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE indrelid = to_regclass(quote_ident(%s)) AND amname = ANY(%s)
"""
HNSW = SQL("CREATE INDEX ON {table} USING hnsw (vector vector_l2_ops) WITH (ef_construction = 128)")
IVF = SQL("CREATE INDEX ON {table} USING ivfflat (vector vector_l2_ops) WITH (lists = {lists})")


class VectorIndex(NamedTuple):
    """One that is there."""

    kind: str  # hnsw or ivf
    lists: int  # cells of ivf


def check_width(width: int, kind: str) -> None:
    if width > WIDEST:
        raise InvalidArgument(
            "dim",
            expected=f"vectors of at most {WIDEST} numbers, as PostgreSQL keeps them",
            got=str(width),
            fix="use a model with fewer dimensions, or another engine",
        )
    if kind in METHODS and width > WIDEST_INDEXED:
        raise InvalidArgument(
            "kind",
            expected=f"flat or auto, as {kind} takes vectors of at most {WIDEST_INDEXED} numbers",
            got=f"{kind} with {width}",
            fix="use kind='flat', or a model with fewer dimensions",
        )


def wanted(kind: str, *, width: int, count: int) -> str | None:
    """The kind of index that an engine of this kind should have."""
    if kind == "auto":
        return "hnsw" if count >= MANY and width <= WIDEST_INDEXED else None
    return kind if kind in METHODS else None


def present(connection: Connection, place: Place, kind: str) -> VectorIndex | None:
    """The one that searches of an engine of this kind go by."""
    if kind == "flat":
        return None
    found = connection.execute(PRESENT, [place.table, list(METHODS.values())]).fetchone()
    if found is None:
        return None
    method, options = found
    settings = dict(option.split("=") for option in options.split(",") if option)
    return VectorIndex(
        next(name for name in METHODS if METHODS[name] == method), int(settings.get("lists", "0"))
    )


def ensure(connection: Connection, place: Place, *, kind: str, width: int) -> None:
    """Inside a transaction: build what is wanted, unless it is there."""
    if _missing(connection, place, kind, width) is None:
        return
    connection.execute(named(SQL("LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"), place))
    missing = _missing(connection, place, kind, width)  # or did another build it meanwhile?
    if missing is not None:
        build(connection, place, kind=missing, width=width, count=_count(connection, place))


def build(connection: Connection, place: Place, *, kind: str, width: int, count: int) -> None:
    """Inside a transaction: whatever stops it, the old index is there and nothing half-built.

    Searches go on meanwhile; those who write wait.
    """
    old = connection.execute(NAMES, [place.table, list(METHODS.values())]).fetchall()
    need = count * (4 * width + BYTES_OF_LINKS) // 1024
    connection.execute(
        "SELECT set_config('maintenance_work_mem', greatest(%s, setting::bigint)::text, true)"
        " FROM pg_settings WHERE name = 'maintenance_work_mem'",
        [min(need, MOST_MEMORY)],
    )
    if kind == "hnsw":
        statement = named(HNSW, place)
    else:
        statement = named(IVF, place, lists=Literal(lists_for(count)))
    connection.execute(statement)
    connection.execute(SHORT_WAIT)
    for names in old:
        connection.execute(SQL("DROP INDEX {}").format(Identifier(*names)))


def _missing(connection: Connection, place: Place, kind: str, width: int) -> str | None:
    """The kind of index to build now."""
    count, there = _count(connection, place), present(connection, place, kind)
    want = wanted(kind, width=width, count=count)
    if want is None or (want == "ivf" and not count):
        return None
    if there is None or there.kind != want:
        return want
    outgrown = want == "ivf" and not 0.5 <= there.lists / lists_for(count) <= 2
    return want if outgrown else None


def _count(connection: Connection, place: Place) -> int:
    ((number,),) = connection.execute(named(SQL("SELECT count(*) FROM {table}"), place)).fetchall()
    return int(number)


def lists_for(count: int) -> int:
    """As pgvector's authors advise."""
    return max(1, count // 1000 if count <= 1_000_000 else math.isqrt(count))


def probes_for(lists: int) -> int:
    """Cells to look at."""
    return max(1, min(lists, max(10, 2 * math.isqrt(lists))))
