"""Who knows the token is answered, others are not, and nothing tells the token."""

import hmac

import pytest
from starlette.types import ASGIApp

from surefind.serve.guards.slow_clients import limited_protocol
from surefind.serve.guards.tokens import CheckToken, is_right, session_cookie

TOKEN = "correct-horse-battery-staple"
COOKIE = session_cookie(TOKEN).split(";")[0]
NAME, VALUE = COOKIE.split("=")
RIGHT = [
    [("Authorization", f"Bearer {TOKEN}")],
    [("Authorization", f"bearer  {TOKEN} ")],
    [("Cookie", COOKIE)],
    [("Cookie", f"a=b; {COOKIE};c")],
    [("Cookie", "a=b"), ("Cookie", COOKIE)],
    [("Cookie", f"{NAME}=older; {COOKIE}")],
    [("Authorization", "Basic dXNlcjpwYXNz"), ("Cookie", COOKIE)],
]
WRONG = [
    [],
    [("Authorization", "")],
    [("Authorization", "Bearer")],
    [("Authorization", "Bearer ")],
    [("Authorization", TOKEN)],
    [("Authorization", f"Basic {TOKEN}")],
    [("Authorization", f"Bearer {TOKEN}x")],
    [("Authorization", f"Bearer {TOKEN[:-1]}")],
    [("Authorization", f"Bearer {TOKEN.upper()}")],
    [("Authorization", "Bearer \xe9\xff")],
    [("Authorization", f"Bearer {VALUE}")],
    [("Cookie", f"{NAME}={TOKEN}")],
    [("Cookie", f"{NAME}=")],
    [("Cookie", NAME)],
    [("Cookie", f"{NAME}={VALUE[:-1]}")],
    [("Cookie", f"x{NAME}={VALUE}")],
    [("Cookie", session_cookie("another-token-of-16").split(";")[0])],
    [("X-Token", TOKEN)],
]


@pytest.mark.parametrize(
    ("headers", "status"), [(one, 200) for one in RIGHT] + [(one, 401) for one in WRONG]
)
def test_only_who_knows_the_token_is_answered(hello, ask, headers, status: int):
    assert ask(CheckToken(hello, TOKEN), "/v1/info", headers=headers).status == status


def test_who_is_refused_is_told_how_to_be_answered(hello, ask):
    answer = ask(CheckToken(hello, TOKEN), "/v1/info")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer" in answer.error["fix"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/page/app.js", 200),
        ("/page/fonts/a.woff2", 200),
        ("/healthz", 200),
        ("/readyz", 200),
        ("/v1/session", 200),
        ("/v1/info", 401),
        ("/v1/search", 401),
        ("/metrics", 401),
        ("/docs", 401),
        ("/openapi.json", 401),
        ("/report/", 401),
        ("", 401),
        ("//", 401),
        ("/page", 401),
        ("/healthz/", 401),
        ("/healthzz", 401),
        ("/v1/session/more", 401),
        ("/page/../v1/info", 401),
        ("/page/a/../../metrics", 401),
        ("/x/page/", 401),
        ("/HEALTHZ", 401),
    ],
)
def test_only_the_page_and_the_signs_of_life_are_open(hello, ask, path: str, status: int):
    assert ask(CheckToken(hello, TOKEN), path).status == status


def test_without_a_token_everything_is_open(hello, ask):
    assert ask(CheckToken(hello, None), "/v1/info").status == 200


def test_a_websocket_is_no_way_around(hello, ask):
    assert ask(CheckToken(hello, TOKEN), "/v1/info", kind="websocket").status == 1008


def test_no_script_and_no_other_site_has_the_cookie():
    flags = {flag.strip() for flag in session_cookie(TOKEN).split(";")[1:]}
    assert flags == {"Path=/", "HttpOnly", "SameSite=Strict"}
    assert session_cookie(TOKEN, secure=True).endswith("; Secure")


def test_the_cookie_is_not_the_token_nor_its_plain_digest():
    assert TOKEN not in session_cookie(TOKEN)
    assert hmac.new(TOKEN.encode(), b"surefind session", "sha256").hexdigest() == VALUE


def test_services_with_different_tokens_have_different_cookies():
    assert session_cookie("another-token-of-16").partition("=")[0] != NAME


@pytest.mark.parametrize("given", ["", "x", TOKEN + "\0", "\ud800", "?" * len(TOKEN), "é" * 40])
def test_what_is_not_the_token_is_wrong(given: str):
    assert not is_right(TOKEN, given)
    assert is_right(TOKEN, TOKEN)


def test_tokens_are_compared_in_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr(
        "secrets.compare_digest", lambda one, other: compared.append((one, other)) or True
    )
    assert is_right(TOKEN, "given")
    assert compared == [(TOKEN.encode(), b"given")]


def test_no_log_and_no_answer_holds_the_token(hello: ASGIApp, serve, caplog):
    for name in (None, "uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"):
        caplog.set_level(1, logger=name)
    protocol = limited_protocol(header_seconds=20, most_connections=20)
    server = serve(CheckToken(hello, TOKEN), protocol, log_level=1, timeout_keep_alive=20)
    heads = [f"{name}: {value}" for one in [*RIGHT, *WRONG] for name, value in one]
    close = "Host: a\r\nConnection: close\r\n\r\n"
    answers = [
        server.ask(f"GET /v1/info HTTP/1.1\r\n{head}\r\n{close}".encode("latin-1"))
        for head in heads
    ]
    answers.append(server.ask(f"GET /v1/info HTTP/1.1\r\n{TOKEN}\r\n\r\n".encode()))
    assert [answer[:12] for answer in answers].count(b"HTTP/1.1 200") >= 5
    assert caplog.text.count("/v1/info") >= len(heads)  # it does log
    for secret in (TOKEN, VALUE):
        assert secret not in caplog.text
        assert all(secret.encode() not in answer for answer in answers)
