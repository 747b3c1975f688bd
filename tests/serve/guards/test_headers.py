"""Every response tells the browser what not to do with it."""

import pytest
from starlette.responses import Response
from starlette.types import ASGIApp

from surefind.serve.guards.guarded import guarded
from surefind.serve.guards.headers import SecurityHeaders
from surefind.serve.guards.hosts import allowed_hosts

HERE = allowed_hosts("127.0.0.1", [])
TOKEN = "correct-horse-battery-staple"


def policy(text: str) -> dict[str, str]:
    return dict(rule.strip().partition(" ")[::2] for rule in text.split(";"))


def test_the_page_runs_its_own_scripts_alone(hello: ASGIApp, ask):
    headers = ask(SecurityHeaders(hello), "/").headers
    assert policy(headers["content-security-policy"]) == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' blob: data:",
        "connect-src": "'self'",
        "frame-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("path", ["/report/", "/report/index.html"])
def test_a_report_runs_nothing_and_is_framed_by_our_page_alone(hello: ASGIApp, ask, path: str):
    headers = ask(SecurityHeaders(hello), path).headers
    assert policy(headers["content-security-policy"]) == {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": "'unsafe-inline'",
        "sandbox": "",
        "frame-ancestors": "'self'",
    }
    assert headers["x-frame-options"] == "SAMEORIGIN"


@pytest.mark.parametrize("path", ["/", "/v1/info", "/report", "/report/", "/reports/", "/nowhere"])
def test_nothing_is_guessed_leaked_shared_or_switched_on(hello: ASGIApp, ask, path: str):
    headers = ask(SecurityHeaders(hello), path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "camera=()" in headers["permissions-policy"]
    assert ("sandbox" in headers["content-security-policy"]) == (path == "/report/")


def test_what_the_app_says_of_the_same_is_replaced_and_the_rest_is_kept(ask):
    app = Response(headers={"Content-Security-Policy": "default-src *", "ETag": "1"})
    headers = ask(SecurityHeaders(app)).headers  # none is there twice: `ask` sees to it
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["etag"] == "1"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost", "Origin": "http://evil.example"}, 403),
        ({"Host": "localhost"}, 401),
        ({"Host": "localhost", "Authorization": f"Bearer {TOKEN}"}, 200),
    ],
)
def test_refusals_have_them_too(hello: ASGIApp, ask, headers: dict[str, str], status: int):
    app = guarded(hello, hosts=HERE, token=TOKEN)
    answer = ask(app, "/v1/search", method="POST", headers=headers)
    assert answer.status == status
    assert "content-security-policy" in answer.headers


def test_a_stranger_learns_nothing_of_the_token(hello: ASGIApp, ask):
    app = guarded(hello, hosts=HERE, token=TOKEN)
    known = {"Host": "evil.example", "Authorization": f"Bearer {TOKEN}"}
    assert ask(app, "/v1/info", headers=known).status == 421
