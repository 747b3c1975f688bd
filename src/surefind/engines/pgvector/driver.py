"""The package psycopg, and how vectors travel to PostgreSQL; nothing else imports it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.engines.engine import EngineError

try:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.pq import Conninfo, Format, TransactionStatus
    from psycopg.types import TypeInfo
    from psycopg.types.string import ByteaBinaryLoader, BytesBinaryDumper
except ImportError as missing:
    raise EngineError(
        "pgvector://... needs the package psycopg", fix="pip install 'surefind[pgvector]'"
    ) from missing

Connection = psycopg.Connection[tuple[Any, ...]]
DatabaseError = psycopg.Error
IDLE = TransactionStatus.IDLE
READ_COMMITTED = psycopg.IsolationLevel.READ_COMMITTED
Composable = sql.Composable
Composed = sql.Composed
SQL = sql.SQL
Identifier = sql.Identifier
Placeholder = sql.Placeholder
Literal = sql.Literal

KNOWN_PARAMETERS = tuple(option.keyword.decode() for option in Conninfo.get_defaults())
_HEAD = np.dtype([("width", ">u2"), ("unused", ">u2")])


class SentVector(bytes):
    """One vector in the binary form of pgvector."""


def read_url(url: str) -> dict[str, str]:
    """What libpq reads from postgresql://...; raises `DatabaseError`, which may show a password."""
    return {name: str(value) for name, value in conninfo_to_dict(url).items()}


def connect(parameters: Mapping[str, str]) -> Connection:
    """Statements are their own transactions unless one is begun.

    Nothing is prepared: a plan that was made for any vector and any k passes the graph by.
    """
    connection: Connection = psycopg.connect(
        make_conninfo(**parameters), autocommit=True, prepare_threshold=None
    )
    try:
        connection.isolation_level = READ_COMMITTED  # whatever the server's default is
        _know_vectors(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def to_sent(vectors: NDArray[np.float32]) -> list[SentVector]:
    """Rows (n, width) as parameters."""
    head = np.array((vectors.shape[1], 0), _HEAD).tobytes()
    return [SentVector(head + row.tobytes()) for row in vectors.astype(">f4")]


def from_sent(received: Sequence[bytes], width: int) -> NDArray[np.float32]:
    """The rows (n, width) of a result that was asked for in binary."""
    layout = np.dtype([("head", _HEAD), ("values", ">f4", (width,))])
    return np.frombuffer(b"".join(received), layout)["values"].astype(np.float32)


def _know_vectors(connection: Connection) -> None:
    """pgvector's own package makes an object of each vector, which takes three times as long."""
    vector = TypeInfo.fetch(connection, "vector")
    if vector is None:  # the extension is not there yet
        return
    vector.register(connection)
    sending = {"oid": vector.oid, "format": Format.BINARY}
    connection.adapters.register_dumper(
        SentVector, type("SentVectorDumper", (BytesBinaryDumper,), sending)
    )
    connection.adapters.register_loader(vector.oid, ByteaBinaryLoader)
