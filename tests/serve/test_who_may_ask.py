"""Where the command listens with and without a token, and who is answered then."""

import re

import pytest
from serving import client_of, running

TOKEN = "n0body-Knows-this-t0ken-42"
BEYOND = ["0.0.0.0", "::", "", "192.0.2.1", "example.com", "127.0.0.1.example.com"]
CLOSED = [
    "/v1/info",
    "/v1/uncertainty",
    "/v1/map",
    "/metrics",
    "/docs",
    "/openapi.json",
    "/report/",
]
OPEN = ["/", "/page/page.js", "/healthz", "/readyz"]
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


@pytest.mark.parametrize("host", BEYOND)
def test_an_address_beyond_this_machine_is_refused_without_a_token(surefind, home, host):
    done = surefind("serve", home / "index", "--port", 0, "--host", host)
    assert done.code == 1
    assert "no token" in done.err and "--token-file" in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(
    "token", ["", "short", "with spaces in between them", "ünicode" * 4, "a" * 2000]
)
def test_a_token_that_cannot_work_is_refused_without_being_shown(
    surefind, home, monkeypatch, token
):
    monkeypatch.setenv("SUREFIND_TOKEN", token)
    done = surefind("serve", home / "index", "--port", 0)
    assert done.code == 1 and "Traceback" not in done.err
    assert not token or token not in done.out + done.err


def test_a_token_file_that_is_not_there_is_refused(surefind, home, tmp_path):
    done = surefind("serve", home / "index", "--port", 0, "--token-file", tmp_path / "none")
    assert done.code == 1 and "cannot read the token" in done.err


# who is answered


@pytest.mark.parametrize("path", CLOSED)
def test_without_the_token_nothing_is_told(guarded, path):
    response = guarded.client.get(path)
    assert response.status_code == 401 and response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", OPEN)
def test_the_page_and_the_health_are_open(guarded, path):
    assert guarded.client.get(path).status_code == 200


@pytest.mark.parametrize(
    "header",
    ["Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer \xff"],
)
def test_a_wrong_token_is_not_taken(guarded, header):
    headers = {"Authorization": header.encode("latin-1")}
    assert guarded.client.get("/v1/info", headers=headers).status_code == 401


def test_a_token_in_the_address_is_not_taken(guarded):
    for name in ("token", "access_token", "authorization"):
        assert guarded.client.get("/v1/info", params={name: "x" * 20}).status_code == 401


def test_who_has_the_token_may_ask(guarded, photo):
    assert guarded.client.get("/v1/info", headers=RIGHT).status_code == 200
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


# names and pages of others


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("a@127.0.0.1", 421),
        ("", 421),
        ("localhost", 200),
        ("192.0.2.7:8000", 200),
        ("photos.example.com", 200),
        ("PHOTOS.example.com:443", 200),
    ],
)
def test_only_names_that_it_goes_by_are_answered(guarded, host, status):
    assert guarded.client.get("/v1/info", headers={**RIGHT, "Host": host}).status_code == status


@pytest.mark.parametrize("host", ["evil.example", "192.0.2.7", "0.0.0.0", "photos.example.com"])
def test_on_this_machine_alone_no_other_name_is_answered(service, host):
    assert service.client.get("/v1/info", headers={"Host": host}).status_code == 421


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


# what is kept to itself


def test_the_token_is_in_no_answer_and_no_log(guarded):
    said = [guarded.client.get(path, headers=RIGHT).text for path in (*OPEN, *CLOSED)]
    guarded.client.post("/v1/session", json={"token": TOKEN})
    log = guarded.log()
    assert re.search(r"GET /v1/info\b", log)  # requests are logged
    assert TOKEN not in log + "".join(said)


def test_no_request_made_it_log_an_error(guarded):
    assert not re.search(r"^ERROR|Traceback", guarded.log(), re.MULTILINE)
