"""Raw bytes sent to a server, HTTP or not."""

import re
import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

PIECE = b"\xff" * 2**20
PATIENCE = 30.0  # seconds for a response


def connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE)


def head_of(method: str, path: str, *lines: str) -> bytes:
    """The head of a request with an allowed host."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""]).encode()


def exchange(url: str, sent: bytes, *, leaving: bool = False) -> bytes:
    """Return everything until the connection ends; `leaving` half-closes it after sending."""
    with connected(url) as client:
        with suppress(OSError):
            client.sendall(sent)
            if leaving:
                client.shutdown(socket.SHUT_WR)
        return _rest(client)


def flooded(url: str, head: bytes, *, size: int, chunked: bool) -> int | None:
    """Return the status of the response to a body of `size` bytes."""
    said = b""
    with connected(url) as client:
        try:
            client.sendall(head)
            for piece in _pieces(size, chunked=chunked):
                if select.select([client], [], [], 0)[0]:
                    said += client.recv(2**16)
                client.sendall(piece)
        except OSError:
            pass  # closed by the server
        said += _rest(client)
    return status_of(said)


def status_of(said: bytes) -> int | None:
    """None if there is no response."""
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", said)
    return None if found is None else int(found[1])


def _pieces(size: int, *, chunked: bool) -> Iterator[bytes]:
    for _ in range(size // len(PIECE)):
        yield b"%x\r\n%s\r\n" % (len(PIECE), PIECE) if chunked else PIECE
    if chunked:
        yield b"0\r\n\r\n"


def _rest(client: socket.socket) -> bytes:
    said = b""
    with suppress(ConnectionError):
        while piece := client.recv(2**16):
            said += piece
    return said
