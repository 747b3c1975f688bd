"""Malformed HTTP is refused, and the next client is served."""

import pytest
from raw_http import exchange, head_of, status_of
from servers import wait_until

HOST = b"Host: 127.0.0.1\r\n"
CHUNKED = head_of("POST", "/v1/search", "Transfer-Encoding: chunked")

MALFORMED = {
    "nothing": b"",
    "binary garbage": bytes(range(256)) * 40,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
    "bare line feeds": b"GET /\x00 HTTP/1.1\nHost: 127.0.0.1\n\n",
    "headers of 1 MB": head_of("GET", "/", "A: " + "a" * 10**6),
    "path of 1 MB": head_of("GET", "/" + "a" * 10**6),
    "negative length": head_of("POST", "/v1/search", "Content-Length: -1") + b"x",
    "length that is no number": head_of("POST", "/v1/search", "Content-Length: ten") + b"x",
    "length of 10^30": head_of("POST", "/v1/search", "Content-Length: 1" + "0" * 30) + b"x",
    "two lengths": head_of("POST", "/v1/search", "Content-Length: 1", "Content-Length: 2") + b"x",
    "length and chunks": head_of("POST", "/v1/search", "Content-Length: 1", "Transfer-Encoding: chunked")
    + b"1\r\nx\r\n0\r\n\r\n",
    "chunk size that is no number": CHUNKED + b"zz\r\nx\r\n",
    "huge chunk size": CHUNKED + b"f" * 17 + b"\r\nx\r\n",
    "endless chunk extension": CHUNKED + b"1;" + b"a" * 100_000 + b"\r\nx\r\n0\r\n\r\n",
    "control characters in the path": b"GET /\x01\x02 HTTP/1.1\r\n" + HOST + b"\r\n",
}
ODD = {
    "HTTP/9.9": b"GET / HTTP/9.9\r\n" + HOST + b"\r\n",
    "headers of 100 kB": head_of("GET", "/", "A: " + "a" * 100_000),
    "path of 100 kB": head_of("GET", "/" + "a" * 100_000),
}
UNFINISHED = {
    "half a request line": b"GET /heal",
    "half a head": b"GET /healthz HTTP/1.1\r\nHost: 127.0",
    "half a body": head_of("POST", "/v1/search", "Content-Length: 100") + b"half",
    "half a chunk": CHUNKED + b"64\r\nhalf",
    "no last chunk": CHUNKED + b"1\r\nx\r\n",
}


@pytest.mark.parametrize("name", [*MALFORMED, *UNFINISHED, *ODD])
def test_malformed_requests_are_refused_and_hold_no_slot(service, name):
    status = status_of(exchange(service.url, {**MALFORMED, **UNFINISHED, **ODD}[name], leaving=True))
    assert status is None or (200 if name in ODD else 400) <= status < 500
    assert service.client.get("/healthz").status_code == 200
    wait_until(lambda: service.state.admission.in_flight == 0)


def test_pipelined_requests_are_answered_in_order(service):
    said = exchange(service.url, head_of("GET", "/healthz") * 20 + head_of("GET", "/nowhere"), leaving=True)
    assert said.count(b"HTTP/1.1 200") == 20 and said.count(b"HTTP/1.1 404") == 1


def test_a_websocket_is_not_opened(service):
    lines = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    status = status_of(exchange(service.url, head_of("GET", "/v1/info", *lines), leaving=True))
    assert status is not None and status != 101 and status < 500
