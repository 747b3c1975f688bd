"""The server: a socket, uvicorn with limits on connections, an end that drops no request."""

import asyncio
import errno
import json
import math
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from surefind.errors import SurefindError
from surefind.search.index import Index
from surefind.serve.app import make_app
from surefind.serve.limits import LATER
from surefind.serve.security import check_bind
from surefind.serve.settings import Settings
from surefind.serve.state import AppState

BACKLOG = 2048  # connections that wait to be taken
KEEP_ALIVE = 30  # seconds between the requests of a connection
PAUSE = 2  # seconds that a client is asked to stay away
LAST_SECONDS = 3.0  # for a client to hear that the connection ends

_BODY = json.dumps({"error": {"problem": "too many connections", "fix": LATER}})
_TURNED_AWAY = (
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(_BODY)}\r\nRetry-After: {PAUSE}\r\n"
    f"X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{_BODY}"
).encode()


def serve(index: Index, settings: Settings, *, told: Callable[[str], None]) -> None:
    """Serve until interrupted; `told` is called with the address once connections are taken."""
    check_bind(settings.host, settings.token)
    with bound(settings) as listening:  # first: once there are threads, they must be ended
        app = make_app(AppState(index, settings))
        host = f"[{settings.host}]" if ":" in settings.host else settings.host or "0.0.0.0"  # noqa: S104 - only shown
        told(f"http://{host}:{listening.getsockname()[1]}")
        server_of(app, settings).run(sockets=[listening])


def server_of(app: ASGIApp, settings: Settings) -> uvicorn.Server:
    """uvicorn, with limits on what a client may take of it."""
    protocol = limited_protocol(
        header_seconds=settings.header_seconds, most_connections=settings.connections
    )
    return _Server(
        uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=settings.access_log,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=int(settings.answer_seconds) + 1,
        )
    )


class _Server(uvicorn.Server):
    """To be told to end is no failure: uvicorn would raise the signal again afterwards."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._captured_signals.clear()


def bound(settings: Settings) -> socket.socket:
    """A socket that takes connections already."""
    host, port = settings.host, settings.port
    try:
        family, *_, place = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(place, family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = (error.strerror or str(error)).partition(" (while")[0]
        raise SurefindError(
            f"cannot listen at {host} port {port}: {why}",
            fix="choose another --port, or 0 for any that is free" if taken else "see --host",
        ) from error


def limited_protocol(
    *, header_seconds: float, most_connections: int, stalled_seconds: float = 30.0
) -> type[H11Protocol]:
    """Make the protocol that uvicorn is to use (`http=`).

    The head of a request has `header_seconds` from the opening of the connection, or from its
    first byte on one that was kept open. Who takes nothing of an answer for `stalled_seconds` is
    cut off. Connections beyond `most_connections` are told to come back.
    """
    limits: dict[str, Any] = {"header_seconds": header_seconds, "stalled_seconds": stalled_seconds}
    limits |= {"most_connections": most_connections, "turned_away": set[H11Protocol]()}
    return type("LimitedProtocol", (_LimitedProtocol,), limits)


class _Transport:
    """A transport that closes in two steps while the client sends, and always in bounded time.

    Closed at once with bytes unread, a socket resets the connection, and the client may lose the
    answer that says why. So stop writing, drop the rest as it comes, and end when the client does,
    or after `LAST_SECONDS`.
    """

    def __init__(self, transport: asyncio.Transport, protocol: "_LimitedProtocol") -> None:
        self._transport, self._protocol, self._closing = transport, protocol, False
        self._timer: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        if self.is_closing():
            return
        self._closing = True
        self._check_after(LAST_SECONDS, before=math.inf)
        if self._protocol.may_be_sending() and self._transport.can_write_eof():
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def pause_reading(self) -> None:
        if not self.is_closing():
            self._transport.pause_reading()

    def expect_progress(self) -> None:
        """Abort once nothing was taken for `stalled_seconds`, until `expect_nothing`."""
        before = self._transport.get_write_buffer_size()
        self._check_after(self._protocol.stalled_seconds, before=before)

    def expect_nothing(self, *, lost: bool = False) -> None:
        if self._timer is not None and (lost or not self._closing):
            self._timer.cancel()

    def _check_after(self, seconds: float, *, before: float) -> None:
        self.expect_nothing(lost=True)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check, before)

    def _check(self, before: float) -> None:
        if 0 < self._transport.get_write_buffer_size() < before:
            self.expect_progress()
        else:
            self._transport.abort()


class _LimitedProtocol(H11Protocol):
    """Whenever no request is being answered, one of two timers runs: uvicorn's for connections
    that are kept open, or the one for the head of a request.
    """

    header_seconds: float
    stalled_seconds: float
    most_connections: int
    turned_away: set[H11Protocol]
    _head: asyncio.TimerHandle | None = None
    _ending: _Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._ending = _Transport(transport, self)
        if len(self.connections) < self.most_connections:
            super().connection_made(self._ending)  # type: ignore[arg-type]
            self._watch()
            return
        self.turned_away.add(self)
        self._ending.write(_TURNED_AWAY)
        self._ending.close()
        if len(self.turned_away) > self.most_connections:
            transport.abort()  # a flood: nobody waits for it to hear the answer

    def data_received(self, data: bytes) -> None:
        if not self._ending.is_closing():  # else it is the rest of what nobody waits for
            super().data_received(data)
            self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # another answer was on its way already
            self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._ending.expect_progress()

    def resume_writing(self) -> None:
        self._ending.expect_nothing()
        super().resume_writing()

    def eof_received(self) -> None:
        self._ending.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.turned_away.discard(self)
        self._stop_watching()
        self._ending.expect_nothing(lost=True)
        if self in self.connections:
            super().connection_lost(exc)

    def may_be_sending(self) -> bool:
        return self in self.turned_away or self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

    def _watch(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        answering = cycle and not cycle.response_complete  # there is none before the first
        if answering or self.timeout_keep_alive_task is not None:
            self._stop_watching()
        elif self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(self.header_seconds, self.transport.abort)

    def _stop_watching(self) -> None:
        if self._head is not None:
            self._head.cancel()
        self._head = None
