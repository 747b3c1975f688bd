"""Servers of a calibrated index, requests to an app without a server, and plain uvicorn servers."""

import asyncio
import io
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import uvicorn
from PIL import Image
from servers import Running, Served, make_vector_index, running, served
from starlette.types import ASGIApp, Receive, Scope, Send

from surefind.search.index import Index


@pytest.fixture
def own(home: Path, tmp_path: Path) -> Path:
    """A copy of the index that a test may change."""
    return Path(copytree(home / "index", tmp_path / "index"))


@pytest.fixture(scope="session")
def service(home: Path) -> Iterator[Served]:
    """Server of the calibrated index, with samples; shared, not to be changed."""
    with served(Index.open(home / "index"), samples=home / "queries" / "class00") as shared:
        yield shared


@pytest.fixture(scope="session")
def label_free_service(label_free: Path) -> Iterator[Served]:
    """Server of an index that is calibrated without labels."""
    with served(Index.open(label_free)) as shared:
        yield shared


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of another model's vectors, not to be changed."""
    return make_vector_index(tmp_path_factory.mktemp("vectors"))


@pytest.fixture(scope="session")
def vector_service(vectors: Path) -> Iterator[Served]:
    with served(Index.open(vectors)) as shared:
        yield shared


@pytest.fixture(scope="session")
def process(home: Path) -> Iterator[Running]:
    """A `surefind serve` process of the calibrated index."""
    with running(home / "index") as started:
        yield started


@pytest.fixture(scope="session")
def photo(home: Path) -> bytes:
    """A query image of an indexed class."""
    return (home / "queries" / "class03" / "1.png").read_bytes()


@pytest.fixture(scope="session")
def picture() -> Callable[[int], bytes]:
    """Small images of noise, by seed."""

    def draw(seed: int) -> bytes:
        pixels = np.random.default_rng(seed).integers(0, 255, (12, 16, 3), np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        return file.getvalue()

    return draw


@dataclass(frozen=True)
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, str]:
        return json.loads(self.body)["error"]


@pytest.fixture
def hello() -> ASGIApp:
    """A minimal app."""

    async def greet(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"hello"})

    return greet


@pytest.fixture
def ask() -> Callable[..., Answered]:
    """Sends one request to an app, without a server."""

    def one_request(
        app: ASGIApp,
        path: str = "/",
        *,
        method: str = "GET",
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    ) -> Answered:
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs]
        scope = {"type": "http", "method": method, "path": path, "headers": raw, "query_string": b""}
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(app(scope, receive, send))
        got = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        assert len(got) == len(sent[0]["headers"]), "duplicate header"
        return Answered(sent[0]["status"], got, b"".join(one["body"] for one in sent[1:]))

    return one_request


class Server:
    """uvicorn in a thread."""

    def __init__(self, config: uvicorn.Config) -> None:
        self._server = uvicorn.Server(config)
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.address = self._socket.getsockname()
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))
        self._thread.start()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=20)

    def ask(self, request: bytes) -> bytes:
        with self.connect() as client:
            client.sendall(request)
            return read_all(client)

    @property
    def connections(self) -> int:
        return len(self._server.server_state.connections)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._socket.close()


def read_all(client: socket.socket) -> bytes:
    """Read until the server closes."""
    read = b""
    while piece := client.recv(2**16):
        read += piece
    return read


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Starts servers that stop with the test."""
    with ExitStack() as stack:

        def start(app: ASGIApp, protocol: Any, **changed: Any) -> Server:
            config = uvicorn.Config(app, http=protocol, log_config=None, lifespan="off", ws="none", **changed)
            server = Server(config)
            stack.callback(server.stop)
            return server

        yield start
