"""Uploads to a real server: refusals arrive, the rest is not kept."""

import json
import select
import socket
import threading
import tracemalloc
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from surefind.serve.guards import slow_clients
from surefind.serve.guards.bodies import UploadRoom, read_body
from surefind.serve.guards.refused import Refused, answer_nobody, refusal
from surefind.serve.guards.slow_clients import limited_protocol

MEGABYTE = 2**20
GIGABYTE = 2**30
PIECE = bytes(2**16)
CHUNK = b"10000\r\n" + PIECE + b"\r\n"


class Uploads:
    """An app that tells how long a body was, with what happened to it."""

    def __init__(self, *, seconds: float = 20) -> None:
        self.room, self.seconds = UploadRoom(8 * MEGABYTE), seconds
        self.left = threading.Event()
        handlers: Any = {Refused: self.refused, ClientDisconnect: self.nobody}
        routes = [Route("/", self.measure, methods=["POST"])]
        self.app = Starlette(routes=routes, exception_handlers=handlers)

    async def refused(self, request: Request, refused: Refused) -> Response:
        return refusal(refused, request)

    async def measure(self, request: Request) -> Response:
        limits: Any = {"most": MEGABYTE, "seconds": self.seconds, "room": self.room}
        return PlainTextResponse(str(len(await read_body(request, **limits))))

    async def nobody(self, request: Request, gone: Exception) -> Response:
        self.left.set()
        return await answer_nobody(request, gone)


@pytest.fixture
def protocol():
    return limited_protocol(header_seconds=20, most_connections=100)


def head(*lines: str) -> bytes:
    return "\r\n".join(["POST / HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def until_answered(client: socket.socket, *, piece: bytes) -> int:
    """Send up to a gigabyte, or until there is an answer to read; how much it was."""
    sent = 0
    while sent < GIGABYTE and not select.select([client], [], [], 0)[0]:
        client.sendall(piece)
        sent += len(piece)
    return sent


def read_answer(client: socket.socket) -> tuple[int, bytes]:
    """Until the server closes."""
    read = b""
    while part := client.recv(2**16):
        read += part
    return int(read.split(b" ")[1]), read


@pytest.mark.parametrize("encoding", ["Transfer-Encoding: chunked", "Content-Length: 1073741824"])
def test_a_gigabyte_is_refused_with_memory_flat(serve, protocol, encoding: str):
    uploads = Uploads()
    server = serve(uploads.app, protocol)
    tracemalloc.start()
    try:
        with server.connect() as client:
            client.sendall(head(encoding))
            sent = until_answered(client, piece=CHUNK)
            status, answer = read_answer(client)
        assert tracemalloc.get_traced_memory()[1] < 6 * MEGABYTE
    finally:
        tracemalloc.stop()
    assert status == 413 and b"connection: close" in answer.lower()
    assert sent < GIGABYTE and uploads.room.held == 0
    assert "1,048,576 bytes" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["problem"]


def test_what_comes_after_the_announced_length_is_no_part_of_the_body(serve, protocol):
    server = serve(Uploads().app, protocol)
    with server.connect() as client:
        client.sendall(head("Content-Length: 10") + PIECE)
        _, answer = read_answer(client)
    assert b"\r\n\r\n10HTTP/1.1 400" in answer


def test_a_client_that_is_told_of_the_limit_first_sends_nothing(serve, protocol):
    server = serve(Uploads().app, protocol)
    with server.connect() as client:
        client.sendall(head("Content-Length: 1048577", "Expect: 100-continue"))
        status, answer = read_answer(client)
    assert status == 413 and b"100 Continue" not in answer


def test_a_client_that_reads_only_once_it_has_sent_all_gets_its_refusal(serve, protocol):
    server = serve(Uploads().app, protocol)
    tracemalloc.start()
    try:
        with server.connect() as client:
            client.sendall(head(f"Content-Length: {64 * MEGABYTE}"))
            for _ in range(64 * MEGABYTE // len(PIECE)):
                client.sendall(PIECE)
            assert read_answer(client)[0] == 413
        assert tracemalloc.get_traced_memory()[1] < 6 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_a_client_that_talks_no_http_is_told_so_however_much_it_sends(serve, protocol):
    server = serve(Uploads().app, protocol)
    with server.connect() as client:
        for _ in range(64):
            client.sendall(b"\0\r\n\r\n" + PIECE)
        assert read_answer(client)[0] == 400


def send_without_end(client: socket.socket) -> None:
    while True:
        client.sendall(CHUNK)


def test_a_client_that_never_stops_sending_is_cut_off(serve, protocol, monkeypatch):
    monkeypatch.setattr(slow_clients, "LAST_SECONDS", 0.2)
    server = serve(Uploads().app, protocol)
    with server.connect() as client:
        client.sendall(head("Transfer-Encoding: chunked"))
        with pytest.raises(ConnectionError):
            send_without_end(client)


def test_a_body_that_stays_away_is_not_waited_for(serve, protocol):
    server = serve(Uploads(seconds=0.1).app, protocol)
    with server.connect() as client:
        client.sendall(head("Content-Length: 1000") + b"only this")
        status, answer = read_answer(client)
    assert status == 408 and b"connection: close" in answer.lower()


def test_a_client_that_leaves_is_noticed_and_nothing_is_logged(serve, protocol, caplog):
    uploads = Uploads()
    server = serve(uploads.app, protocol)
    with server.connect() as client:
        client.sendall(head("Content-Length: 1000") + b"only this")
    assert uploads.left.wait(20)
    assert uploads.room.held == 0
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("rest", [b"zz\r\n", b"-1\r\n", b"5\r\nab\r\n\r\n\r\n", b"\0\0\r\n"])
def test_a_body_that_breaks_the_protocol_is_a_bad_request(serve, protocol, rest: bytes, caplog):
    uploads = Uploads()
    server = serve(uploads.app, protocol)
    with server.connect() as client:
        client.sendall(head("Transfer-Encoding: chunked") + rest)
        assert read_answer(client)[0] == 400
    assert uploads.left.wait(20)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_connection_is_kept_after_a_body_that_was_read(serve, protocol):
    server = serve(Uploads().app, protocol)
    client = HTTPConnection(*server.address, timeout=20)
    client.connect()
    with closing(client):
        port = client.sock.getsockname()
        for size in (5, 0, 70_000):
            client.request("POST", "/", bytes(size))
            assert client.getresponse().read() == str(size).encode()
        assert client.sock.getsockname() == port
