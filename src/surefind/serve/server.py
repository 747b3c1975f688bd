"""HTTP server: ASGI app, error responses, and uvicorn with connection limits."""

import asyncio
import gc
import json
import logging
import math
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import FrameType
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

import surefind
from surefind.engines.base import EngineError
from surefind.errors import InvalidArgument, SurefindError
from surefind.images.decode import FORMATS, ImageRejected
from surefind.search.folder import PictureUnavailable
from surefind.search.index import Index
from surefind.search.query import UnknownItem
from surefind.serve import routes
from surefind.serve.errors import RETRY, RETRY_AFTER, Refused, error_response
from surefind.serve.security import Guard, check_bind
from surefind.serve.service import ServedVersion, Settings
from surefind.serve.state import AppState

BACKLOG = 2048  # connections waiting to be accepted
DRAIN_SECONDS = 3.0  # for a client to read the last response

STATUS = {  # the first match
    UnknownItem: 404,
    PictureUnavailable: 404,
    EngineError: 503,
    InvalidArgument: 400,
}
REASONS = {401: "token", 408: "slow", 413: "too long", 503: "busy"}  # label in the metrics

_BODY = json.dumps({"error": {"problem": "too many connections", "fix": RETRY}})
_TOO_MANY_CONNECTIONS = (
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(_BODY)}\r\nRetry-After: {RETRY_AFTER}\r\n"
    f"X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{_BODY}"
).encode()

logger = logging.getLogger("surefind.serve")


def serve(index: Index, settings: Settings, *, on_ready: Callable[[str], None]) -> None:
    """Serve an index until interrupted.

    Args:
        index: The index; closed at the end.
        settings: Address, access and limits.
        on_ready: Called with the URL once connections are accepted.

    Raises:
        SurefindError: The address cannot be used, or needs a token.
    """
    check_bind(settings.host, settings.token)
    with listen(settings) as listening:  # before any thread is started
        app = make_app(AppState(index, settings))
        host = f"[{settings.host}]" if ":" in settings.host else settings.host or "0.0.0.0"  # noqa: S104 - only shown
        server = make_server(app, settings)
        server.on_ready = partial(on_ready, f"http://{host}:{listening.getsockname()[1]}")
        gc.collect()
        gc.freeze()  # else each full collection visits all that was imported, for 0.3 s
        server.run(sockets=[listening])


def make_app(state: AppState) -> ASGIApp:
    """Return the app: all routes behind access control; its shutdown closes the service."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        reloading = asyncio.create_task(state.keep_reloading())
        yield
        reloading.cancel()
        await asyncio.to_thread(state.service.close)

    app = FastAPI(
        title="surefind",
        version=surefind.__version__,
        summary="Image search that tells you when to trust it.",
        docs_url=None,  # Swagger and ReDoc load scripts from other hosts
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.surefind = state
    app.include_router(routes.router)
    for kind in (SurefindError, RequestValidationError, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, _handle_error)
    own = state.settings
    return Guard(app, own.host, hosts=state.hosts, token=own.token, responses=state.metrics.requests)


async def _handle_error(request: Request, error: Exception) -> Response:
    if isinstance(error, ClientDisconnect):
        return Response(status_code=499)  # for logs and metrics: nobody reads it
    state: AppState = request.app.state.surefind
    refused = _refused(error, state.served)
    if refused.status == 500:
        logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    if isinstance(error, EngineError):
        logger.warning("%s %s: %s", request.method, request.url.path, error.problem)
    if refused.status != 404:
        reason = "image" if isinstance(error, ImageRejected) else REASONS.get(refused.status, "other")
        state.metrics.rejected.labels(reason).inc()
    response = error_response(refused, request)
    response.headers.update(getattr(error, "headers", None) or {})  # e.g. Allow
    return response


def _refused(error: Exception, served: ServedVersion) -> Refused:
    if isinstance(error, Refused):
        return error
    if isinstance(error, RequestValidationError):
        found = error.errors()[0]
        place = ".".join(str(part) for part in found["loc"][1:]) or "the request"
        return Refused(422, f"{place}: {found['msg']}", fix="see /docs")
    if isinstance(error, HTTPException):
        return Refused(error.status_code, str(error.detail), fix="see /docs")
    if isinstance(error, ImageRejected):
        problem = f"this image cannot be used: {error.reason}"
        return Refused(422, problem, fix=f"send a complete file: {', '.join(FORMATS)}")
    if not isinstance(error, SurefindError):  # details in the log only
        return Refused(500, "internal error", fix="see the server's log; please report it")
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
    return Refused(status, served.public_message(error), fix=served.without_folder(error.fix or ""))


def make_server(app: ASGIApp, settings: Settings) -> "_Server":
    """Return uvicorn with limits on what a client can use."""
    protocol = limited_protocol(header_seconds=settings.header_seconds, max_connections=settings.connections)
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
            timeout_keep_alive=30,  # seconds between the requests of a connection
            timeout_graceful_shutdown=int(settings.answer_seconds) + 1,
        )
    )


class _Server(uvicorn.Server):
    """uvicorn that returns normally after a signal instead of raising it again."""

    on_ready: Callable[[], None] = staticmethod(lambda: None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.on_ready()  # from here on a signal ends it in order

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._captured_signals.clear()


def listen(settings: Settings) -> socket.socket:
    """Return a listening socket."""
    host, port = settings.host, settings.port
    try:
        family, *_, place = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        server = socket.create_server(place, family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        problem = f"cannot listen at {host} port {port}: {error.strerror or error}"
        raise SurefindError(problem, fix="choose another --port, or 0 for any free one; or another --host") from error
    # Connections inherit it; asyncio sets it only if the protocol of the socket is not 0. Without
    # it, the body of a response waits 40 ms until the client has acknowledged the head.
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return server


def limited_protocol(
    *, header_seconds: float, max_connections: int, stalled_seconds: float = 30.0
) -> type[H11Protocol]:
    """Return the HTTP protocol class for uvicorn (`http=`).

    The head of a request must arrive within `header_seconds` of the opening of the connection,
    or of its first byte on a kept connection. A client that reads nothing of a response for
    `stalled_seconds` is disconnected. Connections beyond `max_connections` get a 503.
    """
    limits = {"header_seconds": header_seconds, "stalled_seconds": stalled_seconds, "max_connections": max_connections}
    return type("LimitedProtocol", (_LimitedProtocol,), {**limits, "turned_away": set()})


class _Transport:
    """Half-close a connection and drain it, so that the client can read the last response.

    Closing a socket with unread bytes resets the connection, and the client may lose the response.
    So stop writing, discard what still arrives, and close when the client does, or after
    `DRAIN_SECONDS`.
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
        self._check_after(DRAIN_SECONDS, before=math.inf)
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

    def start_stall_timer(self) -> None:
        """Abort once the client has read nothing for `stalled_seconds`."""
        before = self._transport.get_write_buffer_size()
        self._check_after(self._protocol.stalled_seconds, before=before)

    def stop_timer(self, *, lost: bool = False) -> None:
        if self._timer is not None and (lost or not self._closing):
            self._timer.cancel()

    def _check_after(self, seconds: float, *, before: float) -> None:
        self.stop_timer(lost=True)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check, before)

    def _check(self, before: float) -> None:
        if 0 < self._transport.get_write_buffer_size() < before:
            self.start_stall_timer()
        else:
            self._transport.abort()


class _LimitedProtocol(H11Protocol):
    """Between requests one of two timers runs: uvicorn's keep-alive, or that of the head."""

    header_seconds: float
    stalled_seconds: float
    max_connections: int
    turned_away: set[H11Protocol]
    _head_timer: asyncio.TimerHandle | None = None
    _wrapped: _Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._wrapped = _Transport(transport, self)
        if len(self.connections) < self.max_connections:
            super().connection_made(self._wrapped)  # type: ignore[arg-type]
            self._update_head_timer()
            return
        self.turned_away.add(self)
        self._wrapped.write(_TOO_MANY_CONNECTIONS)
        self._wrapped.close()
        if len(self.turned_away) > self.max_connections:
            transport.abort()  # a flood: do not wait for the response to be read

    def data_received(self, data: bytes) -> None:
        if not self._wrapped.is_closing():  # else drain
            super().data_received(data)
            self._update_head_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_head_timer()

    def send_400_response(self, msg: str) -> None:
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # another response has begun
            self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wrapped.start_stall_timer()

    def resume_writing(self) -> None:
        self._wrapped.stop_timer()
        super().resume_writing()

    def eof_received(self) -> None:
        self._wrapped.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.turned_away.discard(self)
        self._stop_head_timer()
        self._wrapped.stop_timer(lost=True)
        if self in self.connections:
            super().connection_lost(exc)

    def may_be_sending(self) -> bool:
        return self in self.turned_away or self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

    def _update_head_timer(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        answering = cycle and not cycle.response_complete  # no cycle before the first request
        if answering or self.timeout_keep_alive_task is not None:
            self._stop_head_timer()
        elif self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self.header_seconds, self.transport.abort)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
        self._head_timer = None
