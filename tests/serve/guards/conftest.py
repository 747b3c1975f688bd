"""Asking an app without a server, and a real server on a free port."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send


@dataclass(frozen=True)
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, str]:
        return json.loads(self.body)["error"]


async def _hello(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def hello() -> ASGIApp:
    """An app that greets everybody."""
    return _hello


@pytest.fixture
def ask() -> Callable[..., Answered]:
    """One request, as a server would hand it to the app."""

    def one_request(
        app: ASGIApp,
        path: str = "/",
        *,
        method: str = "GET",
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        kind: str = "http",
    ) -> Answered:
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs]
        scope = {"type": kind, "path": path, "headers": raw, "query_string": b""}
        if kind == "http":
            scope["method"] = method
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(app(scope, receive, send))
        if kind == "websocket":
            return Answered(sent[0]["code"], {}, b"")
        told = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        assert len(told) == len(sent[0]["headers"]), "a header was sent twice"
        return Answered(sent[0]["status"], told, b"".join(one["body"] for one in sent[1:]))

    return one_request


class Running:
    """A server in a thread."""

    def __init__(self, config: uvicorn.Config) -> None:
        self._server = uvicorn.Server(config)
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.address = self._socket.getsockname()
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=20)

    def ask(self, request: bytes) -> bytes:
        with self.connect() as client:
            client.sendall(request)
            return read_all(client)

    @property
    def connections(self) -> int:
        return len(self._server.server_state.connections)

    @contextmanager
    def running(self) -> Iterator["Running"]:
        self._thread.start()
        try:
            yield self
        finally:
            self.stop()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._socket.close()


def read_all(client: socket.socket) -> bytes:
    """Until the server closes."""
    read = b""
    while piece := client.recv(2**16):
        read += piece
    return read


@pytest.fixture
def serve() -> Iterator[Callable[..., Running]]:
    """Starts servers that end with the test."""
    with ExitStack() as stack:

        def start(app: ASGIApp, protocol: Any, **changed: Any) -> Running:
            config = uvicorn.Config(
                app, http=protocol, log_config=None, lifespan="off", ws="none", **changed
            )
            return stack.enter_context(Running(config).running())

        yield start
