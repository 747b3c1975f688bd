"""Where the command listens with and without a token, and who is answered then."""

import re

import pytest
from serving import client_of, running

TOKEN = "n0body-Knows-this-t0ken-42"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def guarded(home, tmp_path_factory):
    """Listens everywhere, with a token in a file, and logs every request."""
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    options = ("--host", "0.0.0.0", "--token-file", file, "--access-log")
    with running(home / "index", *options, "--host-name", "photos.example.com") as process:
        yield process


# where it may listen


def test_an_address_beyond_this_machine_is_refused_without_a_token(surefind, home):
    done = surefind("serve", home / "index", "--port", 0, "--host", "0.0.0.0")
    assert done.code == 1
    assert "no token" in done.err and "--token-file" in done.err and "Traceback" not in done.err


# who is answered


def test_who_has_the_token_may_ask(guarded, photo):
    for host in ("127.0.0.1", "192.0.2.7:8000", "photos.example.com"):
        headers = {**RIGHT, "Host": host}
        assert guarded.client.get("/v1/info", headers=headers).status_code == 200
    evil = {**RIGHT, "Host": "evil.example"}
    assert guarded.client.get("/v1/info", headers=evil).status_code == 421
    assert guarded.client.post("/v1/search", content=photo, headers=RIGHT).status_code == 200
    assert guarded.client.post("/v1/search", content=photo).status_code == 401


def test_the_cookie_of_a_session_is_as_good_as_the_token_and_is_not_it(guarded):
    with client_of(guarded.url) as browser:
        assert browser.post("/v1/session", json={"token": TOKEN + "x"}).status_code == 401
        assert not browser.cookies
        given = browser.post("/v1/session", json={"token": TOKEN})
        assert given.status_code == 204 and TOKEN not in given.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=Strict"} <= set(given.headers["set-cookie"].split("; "))
        assert browser.get("/v1/info").status_code == 200


def test_a_page_of_another_site_can_neither_ask_nor_read(guarded, photo):
    headers = {**RIGHT, "Origin": "https://evil.example"}
    asked = guarded.client.post("/v1/search", content=photo, headers=headers)
    assert asked.status_code == 403
    preflight = {**headers, "Access-Control-Request-Method": "POST"}
    for response in (
        asked,
        guarded.client.get("/v1/info", headers=headers),
        guarded.client.options("/v1/search", headers=preflight),
        guarded.client.get("/healthz", headers={"Origin": "null"}),
    ):
        assert not [name for name in response.headers if name.startswith("access-control")]


def test_the_log_has_requests_but_neither_the_token_nor_errors(guarded):
    assert guarded.client.get("/v1/info", headers=RIGHT).status_code == 200
    for wrong in (f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN):
        refused = guarded.client.get("/v1/info", headers={"Authorization": wrong})
        assert refused.status_code == 401 and TOKEN not in refused.text
    assert re.search(r"GET /v1/info\b", guarded.log())
    assert TOKEN not in guarded.log()
    assert not re.search(r"^ERROR|Traceback", guarded.log(), re.MULTILINE)
