"""The tables of an index: one with its rows, one line in the list of all indexes."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from surefind.engines.engine import EngineError
from surefind.engines.pgvector.driver import (
    SQL,
    Composable,
    Composed,
    Connection,
    Identifier,
    Literal,
)
from surefind.engines.pgvector.url import REGISTRY, Place
from surefind.engines.space import Space
from surefind.validation import nearest

SCHEMA = 1  # of the tables; raised when their columns change
SHORT_WAIT = "SELECT set_config('lock_timeout', '30s', true)"  # for those who read to finish
ONE_MAKER = 7_309_453_628_123_457  # the advisory lock of those who make and drop tables

LIST = SQL("""
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
)""")
# `metadata` is given back as it was written (jsonb would turn 1e20 into an integer), `fields` is
# what conditions look at. Rows stay whole as long as they fit on a page: by default vectors of
# more than 500 numbers lie elsewhere, and looking at all of them takes ten times as long.
ROWS = SQL("""
CREATE TABLE {table} (
    id text COLLATE "C" PRIMARY KEY,
    key bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    vector vector({width}) NOT NULL,
    var double precision NOT NULL,
    digest text COLLATE "C", -- null where unknown
    metadata text NOT NULL,
    fields jsonb NOT NULL GENERATED ALWAYS AS (metadata::jsonb) STORED
) WITH (toast_tuple_target = 8160)""")
INDEXES = (
    SQL("CREATE INDEX ON {table} (var)"),
    SQL("CREATE INDEX ON {table} (digest) WHERE digest IS NOT NULL"),
    SQL("CREATE INDEX ON {table} USING gin (fields jsonb_path_ops)"),
)


class Entry(NamedTuple):
    """What the list of indexes says about one."""

    number: int
    space: Space
    facts: Mapping[str, Any]
    kind: str  # as asked for at creation
    changes: int
    created: datetime


def named(statement: SQL, place: Place, **others: Composable) -> Composed:
    """With the names of the tables in it."""
    return statement.format(table=Identifier(place.table), registry=Identifier(REGISTRY), **others)


def one_at_a_time(connection: Connection) -> None:
    """Until the transaction ends nobody else makes or drops tables."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [ONE_MAKER])


def make(
    connection: Connection, place: Place, *, space: Space, facts: Mapping[str, Any], kind: str
) -> None:
    """Inside a transaction, in which the extension is known to be there."""
    exists = connection.execute(
        "SELECT to_regclass(quote_ident(%s)) IS NOT NULL", [place.table]
    ).fetchone()
    if exists == (True,):
        raise EngineError(
            f"there is a table {place.table} already at {place.shown}",
            fix="open it, or choose another name with ?table=...",
        )
    connection.execute(named(LIST, place))
    connection.execute(named(ROWS, place, width=Literal(space.width)))
    for statement in INDEXES:
        connection.execute(named(statement, place))
    connection.execute(named(SQL("DELETE FROM {registry} WHERE name = %s"), place), [place.table])
    kept = {"family": space.family, "dim": space.dim, "ranking": space.ranking}
    connection.execute(
        named(
            SQL(
                "INSERT INTO {registry} (name, schema, space, facts, kind)"
                " VALUES (%s, %s, %s, %s, %s)"
            ),
            place,
        ),
        [place.table, SCHEMA, json.dumps(kept), json.dumps(dict(facts)), kind],
    )


def entry(connection: Connection, place: Place) -> Entry:
    """What was written down when the index was made."""
    exist = connection.execute(
        "SELECT to_regclass(quote_ident(%s)) IS NOT NULL, to_regclass(quote_ident(%s)) IS NOT NULL",
        [REGISTRY, place.table],
    ).fetchone()
    if exist is None or not exist[0]:
        raise _nothing_there(place, [])
    if not exist[1]:
        raise _nothing_there(place, _names(connection, place))
    found = connection.execute(
        named(
            SQL(
                "SELECT schema, number, space, facts, kind, changes, created FROM {registry}"
                " WHERE name = %s"
            ),
            place,
        ),
        [place.table],
    ).fetchone()
    if found is None:
        raise _nothing_there(place, _names(connection, place))
    schema, number, space, facts, kind, changes, created = found
    if schema != SCHEMA:
        raise EngineError(
            f"{place.shown} was made by another version of surefind: its tables have layout "
            f"{schema}, this version knows {SCHEMA}",
            fix="update surefind" if schema > SCHEMA else "create the index again",
        )
    return Entry(number, Space(**json.loads(space)), json.loads(facts), kind, changes, created)


def note_change(connection: Connection, place: Place, number: int, *, more: int) -> int:
    """Told last in a transaction that writes; returns how many there have been.

    Others who write wait here until this one has committed, which is a moment.
    """
    statement = SQL(
        "UPDATE {registry} SET changes = changes + 1, rows = rows + %s"
        " WHERE name = %s AND number = %s RETURNING changes"
    )
    return _one(connection, place, statement, [more, place.table, number])


def count(connection: Connection, place: Place, number: int) -> int:
    """As noted by those who wrote."""
    statement = SQL("SELECT rows FROM {registry} WHERE name = %s AND number = %s")
    return _one(connection, place, statement, [place.table, number])


def count_anew(connection: Connection, place: Place, number: int) -> None:
    """Inside a transaction; those who write wait with their last step, so that none is missed."""
    statement = SQL("SELECT rows FROM {registry} WHERE name = %s AND number = %s FOR NO KEY UPDATE")
    noted = _one(connection, place, statement, [place.table, number])
    found = connection.execute(named(SQL("SELECT count(*) FROM {table}"), place)).fetchone()
    if found is not None and found != (noted,):
        note_change(connection, place, number, more=found[0] - noted)


def drop(connection: Connection, place: Place, number: int) -> None:
    one_at_a_time(connection)
    note_change(connection, place, number, more=0)  # not another one of that name
    connection.execute(SHORT_WAIT)
    connection.execute(named(SQL("DROP TABLE IF EXISTS {table}"), place))
    connection.execute(named(SQL("DELETE FROM {registry} WHERE name = %s"), place), [place.table])


def made_anew(place: Place) -> EngineError:
    return EngineError(f"{place.shown} was dropped or made anew meanwhile", fix="open it again")


def _one(connection: Connection, place: Place, statement: SQL, values: list[Any]) -> int:
    found = connection.execute(named(statement, place), values).fetchone()
    if found is None:
        raise made_anew(place)
    return int(found[0])


def _names(connection: Connection, place: Place) -> list[str]:
    return [row[0] for row in connection.execute(named(SQL("SELECT name FROM {registry}"), place))]


def _nothing_there(place: Place, names: list[str]) -> EngineError:
    near = nearest(place.table, [name for name in names if name != place.table])
    return EngineError(
        f"there is no index {place.table} at {place.shown}",
        fix=f"did you mean ?table={near}?" if near else "create it first: surefind index",
    )
