"""The server: bind a socket, run uvicorn with limits, end without dropping a request."""

import errno
import socket
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from surefind.errors import SurefindError
from surefind.search.index import Index
from surefind.serve.app import make_app
from surefind.serve.connection_limits import limited_protocol
from surefind.serve.security import check_bind
from surefind.serve.settings import Settings
from surefind.serve.state import AppState

BACKLOG = 2048  # connections that wait to be taken
KEEP_ALIVE = 30  # seconds between the requests of a connection


def serve(index: Index, settings: Settings, *, told: Callable[[str], None]) -> None:
    """Until it is interrupted; `told` the address once connections are taken."""
    check_bind(settings.host, settings.token)
    with bound(settings) as listening:  # first: once there are threads, they must be ended
        app = make_app(AppState(index, settings))
        told(_address(listening, settings))
        server_of(app, settings).run(sockets=[listening])


def server_of(app: ASGIApp, settings: Settings) -> uvicorn.Server:
    """With limits on what a client may take of it."""
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
        family, kind, protocol, _, place = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with ExitStack() as unless_it_works:
            listening = unless_it_works.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            listening.listen(BACKLOG)
            unless_it_works.pop_all()
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise SurefindError(
            f"cannot listen at {host} port {port}: {error.strerror or error}",
            fix="choose another --port, or 0 for any that is free" if taken else "see --host",
        ) from error
    return listening


def _address(listening: socket.socket, settings: Settings) -> str:
    port = listening.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host or "0.0.0.0"  # noqa: S104 - only shown
    return f"http://{host}:{port}"
