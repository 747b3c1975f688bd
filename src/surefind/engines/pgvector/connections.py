"""Connections to one database: opened when needed, kept for the next call, replaced when dead."""

import os
import selectors
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from surefind.engines.engine import EngineError
from surefind.engines.pgvector.driver import IDLE, Connection, DatabaseError, connect
from surefind.engines.pgvector.failures import connecting, working
from surefind.engines.pgvector.url import Place

KEPT = 4  # connections without work


class Connections:
    """Each call has a connection to itself, so that threads do not meet in one transaction."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._free: list[Connection] = []
        self._process = os.getpid()
        self._closing = weakref.finalize(self, _close_all, self._free, self._process)

    @contextmanager
    def borrowed(self) -> Iterator[Connection]:
        """A connection outside any transaction; errors of the database leave as `EngineError`."""
        connection = self._taken()
        try:
            yield connection
        except DatabaseError as error:
            raise working(error, self.place, lost=connection.closed) from error
        finally:
            self._give_back(connection)

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
        self._closing()

    def _taken(self) -> Connection:
        if not self._closing.alive:
            raise EngineError(f"{self.place.shown} is closed", fix="open it again")
        while self._process == os.getpid():  # not those of a parent process
            try:
                connection = self._free.pop()
            except IndexError:  # to look first would be too late: another thread takes it
                break
            if not _says_something(connection):
                return connection
            connection.close()
        try:
            return connect(self.place.parameters)
        except DatabaseError as error:
            raise connecting(error, self.place) from error

    def _give_back(self, connection: Connection) -> None:
        reusable = not connection.closed and connection.info.transaction_status == IDLE
        ours = self._closing.alive and self._process == os.getpid()
        if reusable and ours and len(self._free) < KEPT:
            self._free.append(connection)
        else:
            connection.close()


def _says_something(connection: Connection) -> bool:
    """A server speaks without being asked only to say goodbye, as when it was restarted."""
    if connection.closed:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return bool(selector.select(timeout=0))


def _close_all(connections: list[Connection], process: int) -> None:
    while connections and process == os.getpid():
        connections.pop().close()
