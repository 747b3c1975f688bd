"""Who knows the token may ask: programs by a header, the page by a cookie."""

import hmac
import secrets
from collections.abc import Sequence

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from surefind.serve.guards.refused import Refused, send_refusal

OPEN_PATHS = ("/", "/page/*", "/healthz", "/readyz", "/v1/session")


def is_right(token: str, given: str) -> bool:
    """In the same time wherever they differ."""
    return secrets.compare_digest(token.encode(), given.encode("utf-8", "surrogatepass"))


def session_cookie(token: str, *, secure: bool = False) -> str:
    """The Set-Cookie header for a page that gave the token; `secure` where it came by TLS.

    The cookie proves the token without being it, ends with the browser, and no script can read
    it. Its name depends on the token: cookies do not know ports, and so two services of one
    machine do not push each other out.
    """
    flags = "; Secure" if secure else ""
    name, value = _cookie(token)
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict{flags}"


class CheckToken:
    """Refuses who does not know the token; paths that end in * are open with all below."""

    def __init__(
        self, app: ASGIApp, token: str | None, *, open_paths: Sequence[str] = OPEN_PATHS
    ) -> None:
        self.app, self._token = app, token
        self._open = {path for path in open_paths if not path.endswith("*")}
        self._open_below = tuple(path[:-1] for path in open_paths if path.endswith("*"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._is_open(scope["path"]) or self._is_known(scope):
            await self.app(scope, receive, send)
            return
        refused = Refused(
            401,
            "this service wants a token, and none that is right was given",
            fix="send the header `Authorization: Bearer TOKEN`, or give the token to the page",
        )
        await send_refusal(refused, scope, receive, send)

    def _is_open(self, path: str) -> bool:
        if path in self._open:
            return True
        # Nothing below here routes `..`, and nothing that did should open other doors.
        return path.startswith(self._open_below) and ".." not in path.split("/")

    def _is_known(self, scope: Scope) -> bool:
        """By header or cookie: a proxy may use the header for a password of its own."""
        if self._token is None:
            return True
        headers = HTTPConnection(scope).headers
        for given in headers.getlist("authorization"):
            scheme, _, rest = given.partition(" ")
            if scheme.lower() == "bearer" and is_right(self._token, rest.strip(" ")):
                return True
        name, value = _cookie(self._token)
        cookies = (one for line in headers.getlist("cookie") for one in line.split(";"))
        pairs = (cookie.strip().partition("=") for cookie in cookies)
        return any(key == name and is_right(value, found) for key, _, found in pairs)


def _cookie(token: str) -> tuple[str, str]:
    """Its name and value."""
    return f"surefind-{_derived(token, 'name')[:8]}", _derived(token, "session")


def _derived(token: str, purpose: str) -> str:
    return hmac.new(token.encode(), f"surefind {purpose}".encode(), "sha256").hexdigest()
