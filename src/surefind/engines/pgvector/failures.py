"""What PostgreSQL's errors mean to the one who called, and what to do about them."""

from surefind.engines.engine import EngineError
from surefind.engines.pgvector.driver import DatabaseError
from surefind.engines.pgvector.url import Place

AGAIN = (
    "call again: it connects anew; all that was acknowledged is kept, and to add the same rows "
    "twice is harmless"
)
# By SQLSTATE, or the beginning of one; the longest that fits counts.
MEANINGS = {
    "08": ("the connection to {place} was lost: {said}", AGAIN),
    "57P0": ("the server at {place} shuts down or restarts: {said}", AGAIN),
    "25006": (
        "the server at {place} does not take writes: {said}",
        "write to the primary server: this is a read-only replica",
    ),
    "40": ("two writers at {place} were in each other's way: {said}", AGAIN),
    "42501": (
        "permission denied at {place}: {said}",
        "ask the owner for GRANT SELECT, INSERT, UPDATE, DELETE on the table and on "
        "surefind_indexes (to make an index: CREATE on the schema), or use another user",
    ),
    "42P01": (
        "a table of the index at {place} is gone: {said}",
        "restore it from a backup, or create the index again",
    ),
    "42704": (
        "pgvector cannot be found at {place}: {said}",
        "add the schema that the extension 'vector' is in to the search_path of the user",
    ),
    "53100": (
        "no space left at {place}: {said}",
        "free space on the server's disk; in a container raise its shared memory, e.g. "
        "--shm-size=1g",
    ),
    "53": ("the server at {place} has no room for more: {said}", "wait, or raise its limits"),
    "55P03": ("a lock at {place} was not to be had: {said}", "wait for other work and call again"),
    "57014": (
        "the server at {place} stopped the work: {said}",
        "raise statement_timeout for this user",
    ),
    "XX00": (
        "the server at {place} found damaged data: {said}",
        "restore the database from a backup",
    ),
}
# By what is said when no connection comes about; then there is no SQLSTATE.
REFUSALS = {
    "password authentication failed": "correct the password in the URL, PGPASSWORD or .pgpass",
    "no password supplied": "give the password in the URL, PGPASSWORD or .pgpass",
    "pg_hba.conf": "let the server's pg_hba.conf allow this user from this machine",
    "starting up": "wait a moment and call again",
    "shutting down": "wait a moment and call again",
    "recovery": "wait a moment and call again",
    "too many clients": "close other connections, or raise max_connections",
    "remaining connection slots": "close other connections, or raise max_connections",
}


def connecting(error: DatabaseError, place: Place) -> EngineError:
    """For an error before there was a connection."""
    said = _said(error, place)
    if "does not exist" in said and "database" in said:
        name = place.parameters.get("dbname", "")
        return EngineError(
            f"there is no such database at {place.shown}: {said}",
            fix=f"create it: createdb {name}" if name else "name a database in the URL",
        )
    for phrase, fix in REFUSALS.items():
        if phrase in said:
            return EngineError(f"cannot connect to {place.shown}: {said}", fix=fix)
    return EngineError(
        f"cannot connect to {place.shown}: {said}",
        fix="start the server, or correct host, port and user in the URL",
    )


def working(error: DatabaseError, place: Place, *, lost: bool) -> EngineError:
    """For an error on an open connection; `lost` if it is not open any more."""
    state = error.sqlstate or ("08" if lost else "")
    fitting = [beginning for beginning in MEANINGS if state.startswith(beginning)]
    if not fitting:
        return EngineError(
            f"the server at {place.shown} refused: {_said(error, place)}",
            fix="see the server's log" + (f"; its code is {state}" if state else ""),
        )
    problem, fix = MEANINGS[max(fitting, key=len)]
    return EngineError(problem.format(place=place.shown, said=_said(error, place)), fix=fix)


def _said(error: DatabaseError, place: Place) -> str:
    """The first line of the message; its details may quote rows."""
    first = error.diag.message_primary or next(iter(str(error).strip().splitlines()), "")
    for secret in place.secrets:
        first = first.replace(secret, "***")
    return first or type(error).__name__
