"""What people should know about an index in a database."""

from typing import Any

from surefind.engines.pgvector import extension
from surefind.engines.pgvector.driver import Connection
from surefind.engines.pgvector.tables import Entry
from surefind.engines.pgvector.url import Place
from surefind.engines.pgvector.vector_index import MANY, SLOW, WIDEST_INDEXED, VectorIndex

STATE = """
SELECT current_setting('fsync') = 'on', reltuples
FROM pg_class WHERE oid = to_regclass(quote_ident(%s))
"""


def warnings(
    connection: Connection, place: Place, entry: Entry, index: VectorIndex | None
) -> tuple[str, ...]:
    """Cheap: the number of rows is the server's estimate."""
    found = []
    ((careful, about),) = connection.execute(STATE, [place.table]).fetchall()
    if not careful:
        found.append("The server runs with fsync=off: rows can be lost when its power fails.")
    width = entry.space.width
    if entry.kind == "auto" and width > WIDEST_INDEXED:
        found.append(
            f"Vectors of {width} numbers are too wide for a graph (at most {WIDEST_INDEXED}): "
            "every search looks at every row."
        )
    elif entry.kind != "flat" and index is None and about >= _slow(entry.kind):
        found.append(f"About {about:.0f} rows are looked at one by one: compact the index.")
    return tuple(found)


def _slow(kind: str) -> int:
    return MANY if kind == "auto" else SLOW


def describe(
    connection: Connection, place: Place, entry: Entry, index: VectorIndex | None
) -> dict[str, Any]:
    ((server, size),) = connection.execute(
        "SELECT current_setting('server_version'),"
        " pg_total_relation_size(to_regclass(quote_ident(%s)))",
        [place.table],
    ).fetchall()
    return {
        "engine": "pgvector",
        "place": place.shown,
        "table": place.table,
        "kind": index.kind if index else "flat",
        "asked_kind": entry.kind,
        "bytes": size,
        "server": f"PostgreSQL {server}",
        "extension": f"pgvector {extension.version(connection)}",
        "created": entry.created.isoformat(timespec="seconds"),
    }
