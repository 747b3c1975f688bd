"""Slow clients are disconnected, refusals arrive, and other clients are not affected."""

import asyncio
import json
import resource
import select
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection

import pytest
from raw_http import head_of, status_of
from servers import wait_until
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from surefind.serve import server as module
from surefind.serve.errors import Refused, error_response
from surefind.serve.server import limited_protocol
from surefind.serve.state import UploadBudget

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
LAST = REQUEST + b"Connection: close\r\n\r\n"
MEGABYTE = 2**20
PIECE = bytes(2**16)
CHUNK = b"10000\r\n" + PIECE + b"\r\n"


def is_closed(client: socket.socket) -> bool:
    """Wait for the server to close."""
    try:
        return client.recv(2**16) == b""
    except ConnectionError:
        return True


def read_chunks(client: socket.socket) -> bytes:
    """Read one response of a kept connection."""
    read = b""
    while not read.endswith(b"\r\n0\r\n\r\n"):
        read += client.recv(2**16)
    return read


@pytest.fixture
def many_files() -> Iterator[None]:
    """File descriptors for both ends of many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_five_hundred_slow_clients_are_disconnected_and_block_nobody(hello: ASGIApp, serve):
    server = serve(hello, limited_protocol(header_seconds=5, max_connections=1000))
    with ExitStack() as stack:
        tracemalloc.start()
        slow = [stack.enter_context(server.connect()) for _ in range(500)]
        wait_until(lambda: server.connections == 500)
        for letter in REQUEST[:4]:
            for client in slow:
                with suppress(OSError):  # it may be closed already
                    client.sendall(bytes([letter]))
            assert server.ask(LAST).startswith(b"HTTP/1.1 200")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 500 * 2**15  # 32 kB each
        assert all(is_closed(client) for client in slow)
        wait_until(lambda: server.connections == 0)
        assert server.ask(LAST).startswith(b"HTTP/1.1 200")


def drip(client: socket.socket) -> None:
    """Send a header now and then, until the connection is closed."""
    with suppress(OSError):
        while True:
            client.sendall(b"A: b\r\n")
            time.sleep(0.02)


@pytest.mark.parametrize("begun", [b"", b"G", REQUEST])
def test_sending_slowly_does_not_extend_the_deadline(hello: ASGIApp, serve, begun: bytes):
    server = serve(hello, limited_protocol(header_seconds=0.3, max_connections=10))
    with server.connect() as client:
        client.sendall(begun)
        if begun == REQUEST:
            dripping = threading.Thread(target=drip, args=[client])
            dripping.start()
        assert is_closed(client)
    if begun == REQUEST:
        dripping.join(20)


def test_the_deadline_of_a_further_request_starts_with_its_first_byte(hello: ASGIApp, serve):
    protocol = limited_protocol(header_seconds=1, max_connections=10)
    server = serve(hello, protocol, timeout_keep_alive=20)
    with server.connect() as client:
        client.sendall(REQUEST + b"\r\n")
        assert read_chunks(client).startswith(b"HTTP/1.1 200")
        assert not select.select([client], [], [], 1.5)[0]  # idle for longer than header_seconds
        client.sendall(b"G")
        assert is_closed(client)


def test_a_response_may_take_longer_than_the_deadline_of_the_head(serve):
    asked, go_on = threading.Event(), threading.Event()

    async def slow_app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        await asyncio.to_thread(go_on.wait, 20)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    server = serve(slow_app, limited_protocol(header_seconds=1, max_connections=10))
    with server.connect() as client:
        client.sendall(LAST)
        assert asked.wait(20)
        assert not select.select([client], [], [], 1.5)[0]
        go_on.set()
        assert client.recv(2**16).startswith(b"HTTP/1.1 200")


def test_an_unread_body_does_not_hold_the_connection(hello: ASGIApp, serve):
    protocol = limited_protocol(header_seconds=1, max_connections=10)
    server = serve(hello, protocol, timeout_keep_alive=20)
    with server.connect() as client:
        client.sendall(REQUEST + b"Content-Length: 1000000\r\n\r\n")
        assert read_chunks(client).startswith(b"HTTP/1.1 200")
        client.sendall(b"a")
        assert is_closed(client)


@pytest.mark.parametrize("hurry", [True, False])
def test_a_connection_beyond_the_limit_gets_503_with_retry_after(hello: ASGIApp, serve, hurry: bool):
    server = serve(hello, limited_protocol(header_seconds=20, max_connections=3))
    with ExitStack() as stack:
        waiting = [stack.enter_context(server.connect()) for _ in range(3)]
        wait_until(lambda: server.connections == 3)
        with server.connect() as client:
            if hurry:
                client.sendall(LAST)
            answer = client.makefile("rb").read()
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ") and b"Retry-After: " in head
        assert f"Content-Length: {len(body)}".encode() in head
        assert set(json.loads(body)["error"]) == {"problem", "fix"}
        assert server.connections == 3
        waiting.pop().close()
        wait_until(lambda: server.connections == 2)
        assert server.ask(LAST).startswith(b"HTTP/1.1 200")


def test_a_flood_is_limited_to_twice_the_connections(hello: ASGIApp, serve, monkeypatch):
    monkeypatch.setattr(module, "DRAIN_SECONDS", 600)
    server = serve(hello, limited_protocol(header_seconds=600, max_connections=3))
    with ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(26)]
        for client in clients[6:]:
            assert client.recv(2**16).startswith(b"HTTP/1.1 503")
            with pytest.raises(ConnectionError):  # the first byte causes a reset, and the next one fails
                wait_until(lambda: client.sendall(b"a"))
        assert server.connections == 3


def test_a_client_that_reads_nothing_is_disconnected(serve):
    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(64):
            await send({"type": "http.response.body", "body": bytes(2**20), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    protocol = limited_protocol(header_seconds=20, max_connections=10, stalled_seconds=0.3)
    server = serve(large, protocol)
    with server.connect() as client:
        client.sendall(LAST)
        wait_until(lambda: server.connections == 1)
        wait_until(lambda: server.connections == 0)


def test_a_client_that_reads_slowly_is_not_disconnected(serve, monkeypatch):
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.2)

    protocol = limited_protocol(header_seconds=20, max_connections=10, stalled_seconds=1)
    server = serve(Response(bytes(24 * 2**20)), protocol)
    with socket.socket() as client:
        # A small buffer, or the kernel would accept everything.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**18)
        client.settimeout(20)
        client.connect(server.address)
        client.sendall(LAST)
        read = 0
        while piece := client.recv(2**19):
            read += len(piece)
            time.sleep(0.04)
    assert read > 24 * 2**20


@pytest.mark.parametrize("sent", [b"", b"G", REQUEST + b"Content-Length: 9\r\n\r\n", b"\0\0\r\n\r\n"])
def test_the_server_stops_despite_slow_clients(hello, serve, monkeypatch, sent: bytes):
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.2)
    server = serve(hello, limited_protocol(header_seconds=600, max_connections=10))
    with server.connect() as client:
        client.sendall(sent)
        wait_until(lambda: server.connections == 1 or sent.startswith(b"\0"))
        server.stop()


# uploads


async def measure(request: Request) -> Response:
    """Return the length of a body of at most a megabyte."""
    try:
        async with UploadBudget(8 * MEGABYTE, 20).read(request, most=MEGABYTE) as body:
            return PlainTextResponse(str(len(body)))
    except Refused as refused:
        return error_response(refused, request)


MEASURE = Starlette(routes=[Route("/", measure, methods=["POST"])])


@pytest.fixture
def protocol():
    return limited_protocol(header_seconds=20, max_connections=100)


def test_expect_100_continue_is_refused_before_the_body_is_sent(serve, protocol):
    server = serve(MEASURE, protocol)
    answer = server.ask(head_of("POST", "/", "Content-Length: 1048577", "Expect: 100-continue"))
    assert status_of(answer) == 413 and b"100 Continue" not in answer


def test_a_client_that_sends_everything_first_gets_its_refusal(serve, protocol):
    server, size = serve(MEASURE, protocol), 64 * MEGABYTE
    sent = head_of("POST", "/", f"Content-Length: {size}") + bytes(size)
    tracemalloc.start()
    try:
        assert status_of(server.ask(sent)) == 413
        assert tracemalloc.get_traced_memory()[1] < 6 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_a_client_that_never_stops_sending_is_disconnected(serve, protocol, monkeypatch):
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.2)
    server = serve(MEASURE, protocol)
    with server.connect() as client:
        client.sendall(head_of("POST", "/", "Transfer-Encoding: chunked"))
        with pytest.raises(ConnectionError):
            wait_until(lambda: client.sendall(CHUNK))  # without end


def test_a_connection_is_kept_after_its_body_was_read(serve, protocol):
    with closing(HTTPConnection(*serve(MEASURE, protocol).address, timeout=20)) as client:
        client.connect()
        socket_before = client.sock
        for size in (5, 0, 70_000):
            client.request("POST", "/", bytes(size))
            assert client.getresponse().read() == str(size).encode()
        assert client.sock is socket_before
