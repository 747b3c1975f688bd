"""Connections to PostgreSQL: URL, pool, errors, vectors in binary. Only this module has psycopg."""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from surefind.engines.base import EngineError
from surefind.engines.server import RETRY, unreadable_url
from surefind.errors import InvalidArgument

try:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.pq import Format
    from psycopg.types import TypeInfo
    from psycopg.types.string import ByteaBinaryLoader, BytesBinaryDumper
    from psycopg_pool import ConnectionPool, PoolClosed
except ImportError as missing:
    raise EngineError(
        "pgvector://... needs the packages psycopg and psycopg_pool",
        fix="pip install 'surefind[pgvector]'",
    ) from missing

Connection = psycopg.Connection[tuple[Any, ...]]
DatabaseError = psycopg.Error
SQL = sql.SQL
Composable = sql.Composable
Composed = sql.Composed
Identifier = sql.Identifier
Literal = sql.Literal
Placeholder = sql.Placeholder

FORM = "pgvector://user:password@host:port/database?table=name"
REGISTRY = "surefind_indexes"  # the table that lists all indexes
DEFAULTS = {
    "application_name": "surefind",
    "connect_timeout": "10",
    "keepalives_idle": "30",  # a server that vanished is noticed within a minute, not in hours
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
REFUSED = {"replication", "sslkeylogfile"}  # speaks another protocol; writes secrets to a file
SECRETS = ("password", "sslpassword", "oauth_client_secret")
MOST_CONNECTIONS = 64
# Nothing is prepared: a plan that was made for any vector and any k passes the graph by.
OPTIONS: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
_URL = re.compile(r"pgvector://([^@/?]*@)?[^@?]*(\?.*)?", re.DOTALL)
_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_HEAD = np.dtype([("width", ">u2"), ("unused", ">u2")])

# It logs a warning for each connection that fails; the same failure is raised here.
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


@dataclass(frozen=True)
class Table:
    """One table in one database."""

    parameters: dict[str, str] = field(repr=False)  # of the connection, with its password
    table: str
    shown: str  # the URL without what is secret


def parse(url: str) -> Table:
    """Everything but `table` is libpq's, as in postgresql://...; so are PGPASSWORD and .pgpass."""
    if not _URL.fullmatch(url):
        raise unreadable_url(FORM)
    tables = [unquote(found) for found in re.findall(r"[?&]table=([^&]*)", url)] or ["surefind"]
    if len(tables) > 1 or not _TABLE.fullmatch(tables[0]) or tables[0] == REGISTRY:
        raise InvalidArgument(
            "table",
            expected=f"one name of a-z, 0-9 and _, at most 48, other than {REGISTRY}",
            got=", ".join(tables)[:80],
        )
    libpq = re.sub(r"([?&])table=[^&]*&?", r"\1", "postgresql" + url.removeprefix("pgvector"))
    try:
        read = conninfo_to_dict(libpq.rstrip("?&"))
    except DatabaseError:
        raise unreadable_url(FORM) from None  # the cause may show a password
    given = {name: str(value) for name, value in read.items()}
    # What libpq takes for a port may be the first half of a password with a slash.
    if not re.fullmatch("[0-9,]*", given.get("port", "")) or REFUSED & given.keys():
        raise unreadable_url(FORM)
    shown = re.sub(r"(://[^:@/?]*):[^@/]*@", r"\1@", url)
    shown = re.sub(rf"([?&])({'|'.join(SECRETS)})=[^&]*&?", r"\1", shown).rstrip("?&")
    parameters = {**DEFAULTS, **given, "client_encoding": "utf8"}
    if any(parameters.get(name, "\0") in unquote(shown) for name in SECRETS):
        raise unreadable_url(FORM)
    return Table(parameters, tables[0], shown)


@contextmanager
def server_errors(place: Table, *, fix: str = RETRY) -> Iterator[None]:
    """Raise `EngineError` with the first line of what the server says; details may quote rows.

    `fix` is given where the server may answer otherwise next time.
    """
    try:
        yield
    except DatabaseError as error:
        said = error.diag.message_primary or str(error).strip().partition("\n")[0]
        for name in SECRETS:
            said = said.replace(place.parameters.get(name) or "\0", "***")
        passing = isinstance(error, psycopg.OperationalError)
        raise EngineError(
            f"{place.shown}: {said or type(error).__name__}", fix=fix if passing else None
        ) from error


def connect(place: Table) -> Connection:
    """A connection outside the pool; statements are their own transactions unless one is begun."""
    fix = "start the server, or correct host, port, user and password in the URL"
    with server_errors(place, fix=fix):
        return psycopg.connect(make_conninfo(**place.parameters), **OPTIONS)


class Connections:
    """A pool. Each call has a connection to itself; errors leave as `EngineError`."""

    def __init__(self, place: Table) -> None:
        self.place = place
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            make_conninfo(**place.parameters),
            kwargs=OPTIONS,
            configure=_configure,
            min_size=0,
            max_size=MOST_CONNECTIONS,
            reconnect_timeout=0,
            num_workers=1,
            open=True,
        )

    @contextmanager
    def borrowed(self) -> Iterator[Connection]:
        """A connection outside any transaction."""
        with server_errors(self.place):
            connection = self._take()
            try:
                yield connection
            finally:
                self._pool.putconn(connection)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Committed when the block ends, rolled back when it raises."""
        with self.borrowed() as connection, connection.transaction():
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A transaction that sees the database as it is at one moment, and writes nothing."""
        with self.transaction() as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection

    def close(self) -> None:
        self._pool.close()

    def _take(self) -> Connection:
        while True:
            try:
                if not self._pool.get_stats().get("pool_available") and not self._pool.closed:
                    connect(self.place).close()  # tells why it fails, which the pool does not
                connection = self._pool.getconn()
            except PoolClosed:
                raise EngineError(f"{self.place.shown} is closed") from None
            try:
                connection.execute("")
            except DatabaseError:  # died since its last use, as when the server was restarted
                self._pool.putconn(connection)
            else:
                return connection


def _configure(connection: Connection) -> None:
    """Whatever the server's default isolation is. Vectors go and come as bytes.

    pgvector's own package makes an object of each vector, which takes three times as long.
    """
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    vector = TypeInfo.fetch(connection, "vector")
    if vector is None:  # the extension is not there
        return
    vector.register(connection)
    sending = {"oid": vector.oid, "format": Format.BINARY}
    connection.adapters.register_dumper(
        SentVector, type("SentVectorDumper", (BytesBinaryDumper,), sending)
    )
    connection.adapters.register_loader(vector.oid, ByteaBinaryLoader)


class SentVector(bytes):
    """One vector in the binary form of pgvector."""


def to_sent(vectors: NDArray[np.float32]) -> list[SentVector]:
    """Rows (n, width) as parameters."""
    head = np.array((vectors.shape[1], 0), _HEAD).tobytes()
    return [SentVector(head + row.tobytes()) for row in vectors.astype(">f4")]


def from_sent(received: Sequence[bytes], width: int) -> NDArray[np.float32]:
    """The rows (n, width) of a result that was asked for in binary."""
    layout = np.dtype([("head", _HEAD), ("values", ">f4", (width,))])
    return np.frombuffer(b"".join(received), layout)["values"].astype(np.float32)
