"""Connections to PostgreSQL: URL, pool, errors, binary vectors. The only importer of psycopg."""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, LiteralString
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from surefind.engines.base import EngineError
from surefind.engines.registry import COLUMNS
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
        "pgvector://... needs the packages psycopg and psycopg_pool", fix="pip install 'surefind[pgvector]'"
    ) from missing

Connection = psycopg.Connection[tuple[Any, ...]]
Row = tuple[Any, ...]
DatabaseError = psycopg.Error
SQL = sql.SQL
Composable = sql.Composable
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
SECRETS = ("password", "sslpassword", "oauth_client_secret")
# Nothing is prepared: a generic plan does not use the vector index.
OPTIONS: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
_IN_PATH = re.compile(r"(pgvector://(?:[^@/?]*@)?[^@/?]*/[^/?]+)/([^/?]+)(\?.*)?", re.DOTALL)
_OURS = ("table", *COLUMNS)  # parameters
_HEAD = np.dtype([("width", ">u2"), ("unused", ">u2")])

# It logs a warning for each failed connection; the same failure is raised here.
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


@dataclass(frozen=True)
class TableUrl:
    """One table in one database."""

    parameters: dict[str, str] = field(repr=False)  # of the connection, with its password
    name: str  # of an attached table perhaps with its schema
    shown: str  # the URL without secrets
    columns: dict[str, str] = field(default_factory=dict)  # of an attached table

    @property
    def identifier(self) -> Identifier:
        return Identifier(*self.name.split(".", 1) if self.columns else [self.name])

    @property
    def quoted(self) -> str:
        return self.identifier.as_string(None)


def parse(url: str) -> TableUrl:
    """Parse a URL: all but table and columns is libpq's, and so are PGPASSWORD and .pgpass."""
    if not re.fullmatch(r"pgvector://([^@/?]*@)?[^@?]*(\?.*)?", url, re.DOTALL):
        raise unreadable_url(FORM)
    place = url
    if in_path := _IN_PATH.fullmatch(url):
        place = f"{in_path[1]}?table={in_path[2]}&{(in_path[3] or '?')[1:]}".rstrip("&")
    before, mark, after = place.partition("?")
    pairs = [(part.partition("=")[0], part) for part in after.split("&")]
    ours = [(name, unquote(part.partition("=")[2])) for name, part in pairs if name in _OURS]
    tables = [value for name, value in ours if name == "table"] or ["surefind"]
    columns = {name: value for name, value in ours if name in COLUMNS}
    own = re.fullmatch(r"[a-z_][a-z0-9_]{0,47}", tables[0]) and tables[0] != REGISTRY
    if len(tables) > 1 or not (own or columns) or "\0" in tables[0]:
        raise InvalidArgument(
            "table",
            expected=f"one name of a-z, 0-9 and _, at most 48, other than {REGISTRY}",
            got=", ".join(tables)[:80],
        )
    rest = "&".join(part for name, part in pairs if name not in _OURS)
    libpq = "postgresql" + before.removeprefix("pgvector") + mark + rest
    try:
        read = conninfo_to_dict(libpq.rstrip("?&"))
    except DatabaseError:
        raise unreadable_url(FORM) from None  # the cause may show a password
    given = {name: str(value) for name, value in read.items()}
    # libpq may take the first half of a password with a slash for a port; another protocol; secrets in a file
    if not re.fullmatch("[0-9,]*", given.get("port", "")) or {"replication", "sslkeylogfile"} & given.keys():
        raise unreadable_url(FORM)
    shown = re.sub(r"(://[^:@/?]*):[^@/]*@", r"\1@", url)
    shown = re.sub(rf"([?&])({'|'.join(SECRETS)})=[^&]*&?", r"\1", shown).rstrip("?&")
    parameters = {**DEFAULTS, **given, "client_encoding": "utf8"}
    if any(parameters.get(name, "\0") in unquote(shown) for name in SECRETS):
        raise unreadable_url(FORM)
    return TableUrl(parameters, tables[0], shown, columns)


@contextmanager
def server_errors(table: TableUrl, *, fix: str = RETRY) -> Iterator[None]:
    """Raise `EngineError` with the server's first line; details may quote rows.

    `fix` is for errors that may pass.
    """
    try:
        yield
    except DatabaseError as error:
        message = error.diag.message_primary or str(error).strip().partition("\n")[0]
        for name in SECRETS:
            message = message.replace(table.parameters.get(name) or "\0", "***")
        passing = isinstance(error, psycopg.OperationalError)
        raise EngineError(f"{table.shown}: {message or type(error).__name__}", fix=fix if passing else None) from error


class Session:
    """A connection whose statements are about one table."""

    def __init__(self, connection: Connection, table: TableUrl) -> None:
        self.connection, self.table = connection, table

    def run(
        self, statement: LiteralString | bytes, values: Any = None, *, binary: bool = False, **names: Any
    ) -> list[Row]:
        """Execute a statement that may name {table} and {registry}, or a composed one; return its rows."""
        query = statement if isinstance(statement, bytes) else self.compose(statement, **names)
        with self.connection.cursor(binary=binary) as cursor:
            cursor.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def compose(self, statement: LiteralString, **names: Composable) -> sql.Composed:
        table, registry = self.table.identifier, Identifier(REGISTRY)
        return SQL(statement).format(table=table, registry=registry, **names)

    def number(self, statement: LiteralString, values: Any = None) -> int:
        """Return the one number that a statement selects."""
        found = self.run(statement, values)
        if not found:
            raise replaced(self.table)
        return int(found[0][0])


def replaced(table: TableUrl) -> EngineError:
    return EngineError(f"{table.shown} was dropped or made anew meanwhile", fix="open it again")


@contextmanager
def connect(table: TableUrl) -> Iterator[Session]:
    """Open a connection outside the pool, for one transaction."""
    fix = "start the server, or correct host, port, user and password in the URL"
    with server_errors(table, fix=fix):
        connection = psycopg.connect(make_conninfo(**table.parameters), **OPTIONS)
    with server_errors(table), connection, connection.transaction():
        yield Session(connection, table)


class Connections:
    """A pool. Each call has a connection to itself; errors leave as `EngineError`."""

    def __init__(self, table: TableUrl) -> None:
        self.table = table
        self._settings: WeakKeyDictionary[Connection, dict[str, str]] = WeakKeyDictionary()
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            make_conninfo(**table.parameters),
            kwargs=OPTIONS,
            configure=partial(_configure, read_only=bool(table.columns)),
            min_size=0,
            max_size=64,
            reconnect_timeout=0,
            num_workers=1,
            open=True,
        )

    @contextmanager
    def borrowed(self) -> Iterator[Session]:
        with server_errors(self.table):
            connection = self._take()
            try:
                yield Session(connection, self.table)
            finally:
                self._pool.putconn(connection)

    @contextmanager
    def tuned(self, settings: LiteralString, values: dict[str, str]) -> Iterator[Session]:
        """Borrow a connection with settings, which it keeps: nothing is sent if it has them."""
        with self.borrowed() as session:
            if self._settings.get(session.connection) != values:
                session.run(settings, values)
                self._settings[session.connection] = values
            yield session

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        with self.borrowed() as session, session.connection.transaction():
            yield session

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """Begin a read-only transaction that sees the database as of one moment."""
        with self.transaction() as session:
            session.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield session

    def close(self) -> None:
        self._pool.close()

    def _take(self) -> Connection:
        while True:
            try:
                if not self._pool.get_stats().get("pool_available") and not self._pool.closed:
                    with connect(self.table):  # raises why it fails, which the pool does not
                        pass
                connection = self._pool.getconn()
            except PoolClosed:
                raise EngineError(f"{self.table.shown} is closed") from None
            try:  # without a word to the server; the second call meets the end behind its last message
                connection.pgconn.consume_input()
                connection.pgconn.consume_input()
            except DatabaseError:  # died since its last use, as when the server was restarted
                self._pool.putconn(connection)
            else:
                return connection


def _configure(connection: Connection, *, read_only: bool) -> None:
    """Set isolation and binary vectors; transactions on an attached table cannot write.

    pgvector's own package makes an object of each vector, which takes three times as long.
    """
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    connection.read_only = read_only
    vector = TypeInfo.fetch(connection, "vector")
    if vector is None:  # the extension is not there
        return
    vector.register(connection)
    sending = {"oid": vector.oid, "format": Format.BINARY}
    connection.adapters.register_dumper(SentVector, type("SentVectorDumper", (BytesBinaryDumper,), sending))
    connection.adapters.register_loader(vector.oid, ByteaBinaryLoader)


class SentVector(bytes):
    """One vector in the binary format of pgvector."""


def to_sent(vectors: NDArray[np.float32]) -> list[SentVector]:
    """Return rows (n, width) as parameters."""
    head = np.array((vectors.shape[1], 0), _HEAD).tobytes()
    return [SentVector(head + row.tobytes()) for row in vectors.astype(">f4")]


def from_sent(received: Sequence[bytes], width: int) -> NDArray[np.float32]:
    """Return the rows (n, width) of a binary result."""
    layout = np.dtype([("head", _HEAD), ("values", ">f4", (width,))])
    return np.frombuffer(b"".join(received), layout)["values"].astype(np.float32)
