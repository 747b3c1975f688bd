"""Requests ask for a host of ours, and other sites' pages change nothing."""

import pytest

from surefind.errors import InvalidArgument
from surefind.serve.guards.hosts import CheckHost, Place, allowed_hosts

HERE = allowed_hosts("127.0.0.1", ["photos.example.com"])
BEYOND = allowed_hosts("192.168.1.7", ["photos.example.com"])
EVERYWHERE = ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:8000"]
EVERYWHERE += ["[0:0::1]", "photos.example.com", "Photos.Example.Com:443", "localhost:0"]
ADDRESSES = ["192.168.1.7", "192.168.1.7:8000", "10.1.2.3", "[fe80::1]:9", "127.0.0.2", "0.0.0.0"]
NOWHERE = ["", ":", ":80", "evil.example", "evil.example:8000", "localhost.evil.example", "127.1"]
NOWHERE += [
    "127.0.0.1.evil.example",
    "example.com",
    "a.photos.example.com",
    "localhost.",
    "2130706433",
]
NOWHERE += ["localhost:", "localhost:99999", "localhost:123456", "localhost:8o", "localhost:-1"]
NOWHERE += ["user@localhost", "localhost/", "localhost localhost", " localhost", "localhost,evil"]
NOWHERE += ["::1", "::1:80", "[::1", "[localhost]", "[127.0.0.1]", "[:::1]", "[::1]x", "[::1%lo]"]
NOWHERE += ["localhost\x00", "l\u043ecalhost".encode().decode("latin-1"), "*", "http://localhost"]
MATRIX = [
    *[(hosts, host, True) for hosts in (HERE, BEYOND) for host in EVERYWHERE],
    *[(hosts, host, False) for hosts in (HERE, BEYOND) for host in NOWHERE],
    *[(HERE, host, False) for host in ADDRESSES],
    *[(BEYOND, host, True) for host in ADDRESSES],
]


@pytest.mark.parametrize(("hosts", "host", "allowed"), MATRIX)
def test_only_our_own_hosts_are_answered(hello, ask, hosts, host: str, allowed: bool):
    answer = ask(CheckHost(hello, hosts), headers={"Host": host})
    assert answer.status == (200 if allowed else 421)
    assert answer.body == b"hello" or "host" in answer.error["problem"]


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], ["localhost", "evil.example"]])
def test_a_request_has_one_host(hello, ask, hosts: list[str]):
    answer = ask(CheckHost(hello, HERE), headers=[("Host", host) for host in hosts])
    assert answer.status == 421


def test_an_answer_does_not_repeat_the_host_it_was_asked_for(hello, ask):
    answer = ask(CheckHost(hello, HERE), headers={"Host": "evil.example"})
    assert b"evil" not in answer.body


def test_bound_to_another_loopback_address_that_one_is_ours(hello, ask):
    app = CheckHost(hello, allowed_hosts("127.0.0.5", []))
    assert ask(app, headers={"Host": "127.0.0.5:8000"}).status == 200
    assert ask(app, headers={"Host": "127.0.0.6:8000"}).status == 421


def test_bound_to_a_name_that_name_is_ours(hello, ask):
    app = CheckHost(hello, allowed_hosts("Machine", []))
    assert ask(app, headers={"Host": "machine:8000"}).status == 200


@pytest.mark.parametrize("name", ["", "*.example.com", "a:80", "http://a", "a b", "a/b", "[a]"])
def test_a_name_that_no_request_could_ask_for_is_refused(name: str):
    with pytest.raises(InvalidArgument, match="host name"):
        allowed_hosts("127.0.0.1", [name])


OURS = [
    ("localhost:8000", "http://localhost:8000"),
    ("LocalHost:8000", "http://localhost:8000"),
    ("localhost", "http://localhost"),
    ("localhost:80", "http://localhost"),
    ("photos.example.com", "https://photos.example.com"),
    ("photos.example.com:443", "https://photos.example.com"),
    ("[::1]:8000", "http://[::1]:8000"),
]
OTHERS = [
    ("localhost:8000", "http://localhost:3000"),
    ("localhost:8000", "http://localhost"),
    ("localhost:80", "https://localhost"),
    ("localhost:8000", "http://127.0.0.1:8000"),
    ("localhost:8000", "http://evil.example"),
    ("localhost:8000", "http://evil.example:8000"),
    ("localhost:8000", "http://localhost:8000.evil.example"),
    ("localhost:8000", "http://localhost:8000/"),
    ("localhost:8000", "http://localhost:8000@evil.example"),
    ("localhost:8000", "file://localhost:8000"),
    ("localhost:8000", "xhttp://localhost:8000"),
    ("localhost:8000", "localhost:8000"),
    ("localhost:8000", "null"),
    ("localhost:8000", ""),
]


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [(*pair, 200) for pair in OURS] + [(*pair, 403) for pair in OTHERS],
)
def test_only_our_own_page_may_post(hello, ask, host: str, origin: str, status: int):
    headers = {"Host": host, "Origin": origin}
    assert ask(CheckHost(hello, HERE), method="POST", headers=headers).status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "ODD"])
def test_no_method_that_may_change_something_is_left_out(hello, ask, method: str):
    headers = {"Host": "localhost", "Origin": "http://evil.example"}
    assert ask(CheckHost(hello, HERE), method=method, headers=headers).status == 403


def test_two_origins_are_none_of_ours(hello, ask):
    headers = [("Host", "localhost"), *[("Origin", "http://localhost")] * 2]
    assert ask(CheckHost(hello, HERE), method="POST", headers=headers).status == 403


def test_a_program_has_no_origin_and_may_post(hello, ask):
    answer = ask(CheckHost(hello, HERE), method="POST", headers={"Host": "localhost"})
    assert answer.status == 200


def test_a_link_from_another_site_may_be_followed(hello, ask):
    headers = {"Host": "localhost", "Origin": "http://evil.example"}
    assert ask(CheckHost(hello, HERE), headers=headers).status == 200


def test_a_refused_body_is_not_waited_for(hello, ask):
    headers = {"Host": "evil.example", "Content-Length": "1000000000"}
    answer = ask(CheckHost(hello, HERE), method="POST", headers=headers)
    assert answer.headers["connection"] == "close"
    assert "connection" not in ask(CheckHost(hello, HERE), headers={"Host": "evil"}).headers


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Host": "localhost", "Origin": "http://evil.example"}],
)
def test_a_websocket_is_no_way_around(hello, ask, headers: dict[str, str]):
    assert ask(CheckHost(hello, HERE), headers=headers, kind="websocket").status == 1008


def test_the_same_address_is_the_same_place_however_it_is_written():
    assert Place.parse("[0:0:0:0:0:0:0:1]:80") == Place.parse("[::1]:80") == Place("::1", 80)
