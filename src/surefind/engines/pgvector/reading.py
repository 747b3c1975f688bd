"""Rows on their way out of the table."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from surefind.engines.engine import Block, EngineError, Keys, Rows
from surefind.engines.pgvector.conditions import Clause, storable
from surefind.engines.pgvector.connections import Connections
from surefind.engines.pgvector.driver import SQL, Identifier, from_sent
from surefind.engines.pgvector.tables import named
from surefind.engines.space import Space

NUMBERS_AT_ONCE = 2**21  # of the vectors in a block: 8 MB

ROWS = SQL("""
SELECT {column}, id, vector, var, coalesce(digest, ''), metadata
FROM {table} WHERE {column} = ANY(%s)
""")
ALL = SQL("SELECT key, vector, var FROM {table} WHERE {where}")
DIGESTS = SQL("SELECT id, coalesce(digest, '') FROM {table} WHERE id = ANY(%s)")
IDS = SQL("SELECT digest, min(id) FROM {table} WHERE digest = ANY(%s) GROUP BY digest")
COUNT = SQL("SELECT count(*) FROM {table} WHERE {where}")
VAR_RANGE = SQL("SELECT min(var), max(var) FROM {table}")


def rows(connections: Connections, keys: Keys, space: Space) -> Rows:
    asked = [int(key) for key in keys]
    kept = _kept(connections, "key", asked)
    missing = [key for key in asked if key not in kept]
    if missing:
        raise EngineError(
            f"{len(missing)} of {len(asked)} rows were removed from {connections.place.shown} "
            "meanwhile",
            fix="search again",
        )
    return _rows([kept[key] for key in asked], space)


def find(connections: Connections, ids: Sequence[str], space: Space) -> Rows:
    """Of those ids that are known, in that order, each once."""
    asked = [name for name in dict.fromkeys(ids) if storable(name)]  # nothing is known of others
    kept = _kept(connections, "id", asked)
    return _rows([kept[name] for name in asked if name in kept], space)


def scan(connections: Connections, clause: Clause, width: int) -> Iterator[Block]:
    """On a connection of its own, which is given back even if not all blocks are taken."""
    statement = named(ALL, connections.place, where=clause.text)
    size = max(1, NUMBERS_AT_ONCE // width)
    with (
        connections.snapshot() as connection,
        connection.cursor("surefind_scan", binary=True) as cursor,
    ):
        cursor.execute(statement, clause.parameters)
        while found := cursor.fetchmany(size):
            keys, vectors, var = zip(*found, strict=True)
            yield Block(np.array(keys), from_sent(vectors, width), np.array(var))


def digests_of(connections: Connections, ids: Sequence[str]) -> dict[str, str]:
    return dict(_pairs(connections, DIGESTS, ids))


def ids_of(connections: Connections, digests: Sequence[str]) -> dict[str, str]:
    return dict(_pairs(connections, IDS, [digest for digest in digests if digest]))


def count(connections: Connections, clause: Clause) -> int:
    statement = named(COUNT, connections.place, where=clause.text)
    with connections.borrowed() as connection:
        ((number,),) = connection.execute(statement, clause.parameters).fetchall()
    return int(number)


def var_range(connections: Connections) -> tuple[float, float]:
    with connections.borrowed() as connection:
        ((low, high),) = connection.execute(named(VAR_RANGE, connections.place)).fetchall()
    return (float("inf"), 0.0) if low is None else (low, high)


def _kept(connections: Connections, column: str, values: Sequence[Any]) -> dict[Any, Any]:
    """Rows by the value that they have there, if it is one of these."""
    statement = named(ROWS, connections.place, column=Identifier(column))
    with connections.borrowed() as connection, connection.cursor(binary=True) as cursor:
        cursor.execute(statement, [list(values)])
        return {row[0]: row for row in cursor}


def _rows(kept: Sequence[Any], space: Space) -> Rows:
    _, ids, vectors, var, digests, metadata = list(zip(*kept, strict=True)) or [()] * 6
    embeddings = space.embeddings(from_sent(vectors, space.width), np.array(var, np.float64))
    return Rows(ids, embeddings, digests, tuple(json.loads(text) for text in metadata))


def _pairs(connections: Connections, statement: SQL, names: Sequence[str]) -> list[Any]:
    asked = [name for name in names if storable(name)]  # nothing is known of others
    with connections.borrowed() as connection:
        return connection.execute(named(statement, connections.place), [asked]).fetchall()
