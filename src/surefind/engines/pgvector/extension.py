"""The extension pgvector in a database: installed when it is missing, recent enough."""

import re

from surefind.engines.engine import EngineError
from surefind.engines.pgvector.driver import Connection, DatabaseError
from surefind.engines.pgvector.url import Place

OLDEST = (0, 8)  # that goes on along a graph until enough rows satisfy a condition
NOT_ALLOWED = "42501"


def ensure_extension(connection: Connection, place: Place) -> None:
    """Inside a transaction."""
    if version(connection) is None:
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except DatabaseError as error:
            raise _missing(error, place) from error
    check_extension(connection, place)


def check_extension(connection: Connection, place: Place) -> None:
    found = version(connection)
    if found is None:
        raise EngineError(
            f"the database of {place.shown} has no extension pgvector",
            fix="let an administrator run: CREATE EXTENSION vector",
        )
    if tuple(int(part) for part in re.findall(r"\d+", found)[:2]) < OLDEST:
        raise EngineError(
            f"the database of {place.shown} has pgvector {found}, which is too old",
            fix="install pgvector 0.8 or newer, then run: ALTER EXTENSION vector UPDATE",
        )


def check_encoding(connection: Connection, place: Place) -> None:
    (encoding,) = connection.execute("SELECT current_setting('server_encoding')").fetchall()[0]
    if encoding != "UTF8":
        raise EngineError(
            f"the database of {place.shown} keeps texts as {encoding}",
            fix="create one that keeps any text: createdb --encoding=UTF8 --template=template0",
        )


def version(connection: Connection) -> str | None:
    found = connection.execute(
        "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    ).fetchone()
    return None if found is None else str(found[0])


def _missing(error: DatabaseError, place: Place) -> EngineError:
    said = error.diag.message_primary
    if error.sqlstate == NOT_ALLOWED:
        return EngineError(
            f"the database of {place.shown} has no extension pgvector, and this user may not "
            f"install it: {said}",
            fix="let an administrator run: CREATE EXTENSION vector",
        )
    return EngineError(
        f"the server of {place.shown} does not offer pgvector: {said}",
        fix="install pgvector on the server, e.g. apt install postgresql-18-pgvector",
    )
