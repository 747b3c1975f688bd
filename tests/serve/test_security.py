"""Bind address, token, Host and Origin checks, security headers."""

import hmac
import logging
import re
from pathlib import Path

import pytest
from servers import client_of, running
from starlette.responses import Response
from starlette.types import ASGIApp

from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.serve.security import MAX_TOKEN, Guard, check_bind, known_hosts, read_token, session_cookie, token_matches
from surefind.serve.state import Metrics

TOKEN = "correct-horse-battery-staple"

# bind and token

LOOPBACK = ["127.0.0.1", "127.255.255.254", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"]
LOOPBACK += ["localhost", "LocalHost"]
PUBLIC = ["0.0.0.0", "::", "", "0", "192.168.1.7", "fe80::1", "photos", "*", "::ffff:10.0.0.1"]
PUBLIC += ["128.0.0.1", "127.0.0.1.example.com", "localhost.example.com"]
UNUSABLE = ["", "short", TOKEN[:15], "with a space in it", "line\nbreak, and more"]
UNUSABLE += ["ключ от всех дверей", "nul\0and more of it", "x" * (MAX_TOKEN + 1), TOKEN + "\n"]
MATRIX = [
    *[(host, token, True) for host in LOOPBACK for token in (None, TOKEN)],
    *[(host, token, token is not None) for host in PUBLIC for token in (None, TOKEN)],
    *[(host, token, False) for host in ("127.0.0.1", "0.0.0.0") for token in UNUSABLE],
]


@pytest.mark.parametrize(("host", "token", "allowed"), MATRIX)
def test_a_public_address_needs_a_usable_token(host: str, token: str | None, allowed: bool):
    if allowed:
        check_bind(host, token)
        return
    with pytest.raises(SurefindError) as caught:
        check_bind(host, token)
    assert ("--token-file FILE" in caught.value.fix) == (token is None)
    assert not token or token not in str(caught.value)


def make_file(folder: Path, content: bytes, *, mode: int = 0o600) -> Path:
    file = folder / "token"
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_the_token_file_takes_precedence_over_the_environment(tmp_path: Path):
    file = make_file(tmp_path, b"\xef\xbb\xbf" + f"{TOKEN}\n".encode())
    assert read_token(file, {"SUREFIND_TOKEN": "another"}) == TOKEN
    assert read_token(None, {"SUREFIND_TOKEN": f" {TOKEN}\n"}) == TOKEN
    assert read_token(None, {}) is None


def test_an_empty_token_is_an_error_not_no_token(tmp_path: Path):
    with pytest.raises(SurefindError, match="has no token"):
        read_token(make_file(tmp_path, b" \t\r\n"), {})
    with pytest.raises(SurefindError, match="SUREFIND_TOKEN has no token"):
        read_token(None, {"SUREFIND_TOKEN": ""})


def test_the_error_of_an_unreadable_token_file_does_not_contain_it(tmp_path: Path):
    with pytest.raises(InvalidFile, match="cannot read the token"):
        read_token(tmp_path, {})
    with pytest.raises(InvalidFile, match="not text") as caught:
        read_token(make_file(tmp_path, b"\xff\xfesecret"), {})
    assert "secret" not in str(caught.value) and caught.value.__suppress_context__


@pytest.mark.parametrize(("mode", "warned"), [(0o600, 0), (0o640, 0), (0o644, 1)])
def test_a_world_readable_token_file_is_warned_about(tmp_path: Path, caplog, mode, warned):
    caplog.set_level(logging.DEBUG)
    read_token(make_file(tmp_path, TOKEN.encode(), mode=mode), {})
    assert len(caplog.records) == warned and TOKEN not in caplog.text


# host and origin


def guard(app: ASGIApp, bind: str = "127.0.0.1", *, token: str | None = None) -> Guard:
    hosts = known_hosts(bind, ["photos.example.com"])
    return Guard(app, bind, hosts=hosts, token=token, responses=Metrics().requests)


ALLOWED_HOSTS = ["localhost", "LOCALHOST:8000", "Photos.Example.Com:443", "127.0.0.1:80", "[0:0::1]"]
ADDRESSES = ["192.168.1.7:8000", "[fe80::1]:9", "127.0.0.2", "0.0.0.0"]
OTHER_HOSTS = ["", ":80", "evil.example:8000", "localhost.evil.example", "2130706433", "*", "localhost."]
OTHER_HOSTS += ["localhost:", "localhost:99999", "localhost:8o", "localhost:-1", "user@localhost", "localhost/"]
OTHER_HOSTS += [" localhost", "localhost,evil", "::1", "[::1", "[localhost]", "[127.0.0.1]", "[::1]x", "[::1%lo]"]
OTHER_HOSTS += ["localhost\x00", "l\u043ecalhost".encode().decode("latin-1"), "http://localhost"]
HOSTS = [
    *[(bind, host, True) for bind in ("127.0.0.1", "192.168.1.7") for host in ALLOWED_HOSTS],
    *[(bind, host, False) for bind in ("127.0.0.1", "192.168.1.7") for host in OTHER_HOSTS],
    *[(bind, host, bind != "127.0.0.1") for bind in ("127.0.0.1", "::") for host in ADDRESSES],
    ("127.0.0.5", "127.0.0.5:8000", True),
    ("127.0.0.5", "127.0.0.6:8000", False),
    ("Machine", "machine:8000", True),
]


@pytest.mark.parametrize(("bind", "host", "allowed"), HOSTS)
def test_only_allowed_hosts_are_answered(hello, ask, bind: str, host: str, allowed: bool):
    answer = ask(guard(hello, bind), headers={"Host": host})
    assert answer.status == (200 if allowed else 421)
    assert allowed or "evil" not in answer.error["problem"]  # what was asked is not repeated


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], ["localhost", "evil.example"]])
def test_a_request_needs_exactly_one_host(hello, ask, hosts: list[str]):
    assert ask(guard(hello), headers=[("Host", host) for host in hosts]).status == 421


@pytest.mark.parametrize("name", ["", "*.example.com", "a:80", "http://a", "a b", "a/b", "[a]"])
def test_an_invalid_host_name_is_refused(name: str):
    with pytest.raises(InvalidArgument, match="host name"):
        known_hosts("127.0.0.1", [name])


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("LocalHost:8000", "http://localhost:8000", 200),
        ("localhost:80", "http://localhost", 200),
        ("photos.example.com", "https://photos.example.com", 200),
        ("[::1]:8000", "http://[::1]:8000", 200),
        ("localhost:8000", "http://localhost:3000", 403),
        ("localhost:80", "https://localhost", 403),
        ("localhost:8000", "http://127.0.0.1:8000", 403),
        ("localhost:8000", "http://localhost:8000.evil.example", 403),
        ("localhost:8000", "http://localhost:8000@evil.example", 403),
        ("localhost:8000", "xhttp://localhost:8000", 403),
        ("localhost:8000", "null", 403),
        ("localhost:8000", "", 403),
    ],
)
def test_only_the_service_s_own_page_may_post(hello, ask, host: str, origin: str, status: int):
    headers = {"Host": host, "Origin": origin}
    assert ask(guard(hello), method="POST", headers=headers).status == status


def test_programs_may_post_and_links_may_be_followed(hello, ask):
    stranger = {"Host": "localhost", "Origin": "http://evil.example"}
    assert ask(guard(hello), method="POST", headers={"Host": "localhost"}).status == 200
    assert ask(guard(hello), headers=stranger).status == 200
    for method in ("PUT", "DELETE", "PATCH", "ODD"):
        assert ask(guard(hello), method=method, headers=stranger).status == 403
    twice = [("Host", "localhost"), *[("Origin", "http://localhost")] * 2]
    assert ask(guard(hello), method="POST", headers=twice).status == 403


def test_a_refused_body_is_not_waited_for(hello, ask):
    headers = {"Host": "evil.example", "Content-Length": "1000000000"}
    assert ask(guard(hello), method="POST", headers=headers).headers["connection"] == "close"
    assert "connection" not in ask(guard(hello), headers={"Host": "evil"}).headers


# requests with and without the token

COOKIE = session_cookie(TOKEN).split(";")[0]
NAME, VALUE = COOKIE.split("=")
RIGHT = [
    [("Authorization", f"Bearer {TOKEN}")],
    [("Authorization", f"bearer  {TOKEN} ")],
    [("Cookie", f"a=b; {COOKIE};c")],
    [("Cookie", f"{NAME}=older; {COOKIE}")],
    [("Authorization", "Basic dXNlcjpwYXNz"), ("Cookie", COOKIE)],
]
WRONG = [
    [],
    *([("Authorization", value)] for value in ("Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x")),
    *([("Authorization", f"Bearer {value}")] for value in (TOKEN[:-1], "\xe9\xff", VALUE)),
    *([("Cookie", f"{NAME}={value}")] for value in (TOKEN, VALUE[:-1], "")),
    [("Cookie", f"x{NAME}={VALUE}")],
    [("Cookie", session_cookie("another-token-of-16").split(";")[0])],
    [("X-Token", TOKEN)],
]


@pytest.mark.parametrize(("headers", "status"), [(one, 200) for one in RIGHT] + [(one, 401) for one in WRONG])
def test_requests_without_the_token_are_refused(hello, ask, headers, status: int):
    app = guard(hello, token=TOKEN)
    answer = ask(app, "/v1/info", headers=[("Host", "localhost"), *headers])
    assert answer.status == status
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "Authorization: Bearer" in answer.error["fix"]


@pytest.mark.parametrize(
    ("status", "paths"),
    [
        (200, ["/", "/page/app.js", "/healthz", "/readyz", "/v1/session"]),
        (401, ["/v1/info", "/metrics", "/docs", "/openapi.json", "/report/", "", "//", "/page"]),
        (401, ["/healthz/", "/healthzz", "/HEALTHZ", "/v1/session/more", "/x/page/"]),
        (401, ["/page/../v1/info", "/page/a/../../metrics"]),
    ],
)
def test_only_page_and_health_need_no_token(hello, ask, status: int, paths: list[str]):
    app = guard(hello, token=TOKEN)
    assert {ask(app, path, headers={"Host": "localhost"}).status for path in paths} == {status}


def test_the_session_cookie_has_safe_flags_and_not_the_token():
    flags = {flag.strip() for flag in session_cookie(TOKEN).split(";")[1:]}
    assert flags == {"Path=/", "HttpOnly", "SameSite=Strict"}
    assert session_cookie(TOKEN, secure=True).endswith("; Secure")
    assert hmac.new(TOKEN.encode(), b"surefind session", "sha256").hexdigest() == VALUE
    assert session_cookie("another-token-of-16").partition("=")[0] != NAME


def test_tokens_are_compared_in_constant_time(monkeypatch):
    assert token_matches(TOKEN, TOKEN)
    assert not any(token_matches(TOKEN, given) for given in ("", TOKEN + "\0", "\ud800", "é" * 40))
    compared = []
    monkeypatch.setattr("secrets.compare_digest", lambda one, other: compared.append((one, other)) or True)
    assert token_matches(TOKEN, "given")
    assert compared == [(TOKEN.encode(), b"given")]


# headers


def policy(text: str) -> dict[str, str]:
    return dict(rule.strip().partition(" ")[::2] for rule in text.split(";"))


def test_the_content_security_policy_allows_own_scripts_only(ask):
    app = Response(headers={"Content-Security-Policy": "default-src *", "ETag": "1"})
    headers = ask(guard(app), headers={"Host": "localhost"}).headers
    rules = policy(headers["content-security-policy"])
    assert {rules.pop(name) for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert (rules.pop("img-src"), rules.pop("frame-src")) == ("'self' blob: data:", "'self'")
    assert set(rules.values()) == {"'none'"} and {"default-src", "form-action"} < rules.keys()
    assert headers["x-frame-options"] == "DENY" and headers["etag"] == "1"


def test_a_report_is_sandboxed_and_framed_by_the_page_only(hello: ASGIApp, ask):
    headers = ask(guard(hello), "/report/", headers={"Host": "localhost"}).headers
    rules = policy(headers["content-security-policy"])
    assert rules["default-src"] == "'none'" and rules["sandbox"] == "" and "script-src" not in rules
    assert rules["frame-ancestors"] == "'self'" and headers["x-frame-options"] == "SAMEORIGIN"


@pytest.mark.parametrize("path", ["/", "/v1/info", "/report", "/report/", "/reports/"])
@pytest.mark.parametrize("host", ["localhost", "evil.example"])
def test_every_response_has_security_headers(hello: ASGIApp, ask, path, host):
    headers = ask(guard(hello), path, headers={"Host": host}).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "camera=()" in headers["permissions-policy"]
    assert ("sandbox" in headers["content-security-policy"]) == (path == "/report/")


def test_the_host_is_checked_before_the_token(hello: ASGIApp, ask):
    known = {"Host": "evil.example", "Authorization": f"Bearer {TOKEN}"}
    assert ask(guard(hello, token=TOKEN), "/v1/info", headers=known).status == 421


# the command

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def guarded(home, tmp_path_factory):
    """`surefind serve` on all addresses, with a token file and an access log."""
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    options = ("--host", "0.0.0.0", "--token-file", file, "--access-log")
    with running(home / "index", *options, "--host-name", "photos.example.com") as process:
        yield process


def test_the_command_requires_an_allowed_host_and_the_token_or_its_cookie(guarded):
    for host in ("192.0.2.7:8000", "photos.example.com"):
        headers = {**BEARER, "Host": host}
        assert guarded.client.get("/v1/info", headers=headers).status_code == 200
    evil = {**BEARER, "Host": "evil.example"}
    assert guarded.client.get("/v1/info", headers=evil).status_code == 421
    with client_of(guarded.url) as browser:
        assert browser.post("/v1/session", headers={"Token": TOKEN + "x"}).status_code == 401
        assert browser.get("/v1/info").status_code == 401
        given = browser.post("/v1/session", headers={"Token": TOKEN})
        assert given.status_code == 204 and TOKEN not in given.headers["set-cookie"]
        assert browser.get("/v1/info").status_code == 200


def test_a_page_of_another_site_can_neither_post_nor_read(guarded, photo):
    headers = {**BEARER, "Origin": "https://evil.example"}
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


def test_the_access_log_contains_neither_the_token_nor_errors(guarded):
    assert guarded.client.get("/v1/info", headers=BEARER).status_code == 200
    for wrong in (f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN):
        refused = guarded.client.get("/v1/info", headers={"Authorization": wrong})
        assert refused.status_code == 401 and TOKEN not in refused.text
    assert re.search(r"GET /v1/info\b", guarded.log())
    assert TOKEN not in guarded.log()
    assert not re.search(r"^ERROR|Traceback", guarded.log(), re.MULTILINE)
