"""Access control: bind address, token, Host and Origin checks, security headers."""

import hmac
import ipaddress
import logging
import os
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from prometheus_client import Counter
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.serve.errors import Refused, error_response

VARIABLE = "SUREFIND_TOKEN"
MIN_TOKEN, MAX_TOKEN = 16, 1024  # characters; proxies may refuse longer headers
HOW_TO_CREATE = 'create one: python -c "import secrets; print(secrets.token_urlsafe(32))"'

_OPEN_PATHS = {"/", "/healthz", "/readyz", "/v1/session"}  # and everything below /page/
_METHODS = {"GET", "HEAD", "POST"}  # others are counted as one, to bound the metrics
_HOST = re.compile(r"(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9._-]{1,253}))(?::([0-9]{1,5}))?", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=()",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
}
# A report has inline styles, is shown in a frame of the page, and runs no scripts.
_REPORT_HEADERS = _HEADERS | {
    "Content-Security-Policy": (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; sandbox; frame-ancestors 'self'"
    ),
    "X-Frame-Options": "SAMEORIGIN",
}

logger = logging.getLogger("surefind.serve")


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    address = _address(host)
    if address is None:
        return host.lower() == "localhost"  # other names may resolve to anything
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def check_bind(host: str, token: str | None) -> None:
    """Raise SurefindError for a public address without a token, or an unusable token."""
    if token is None and not is_loopback(host):
        raise SurefindError(
            f"{host or 'every address'} is reachable from other machines, and there is no token",
            fix=f"set a token with --token-file FILE or {VARIABLE}, "
            "or bind to 127.0.0.1 behind a proxy that authenticates",
        )
    if token is not None and not re.fullmatch(rf"[!-~]{{{MIN_TOKEN},{MAX_TOKEN}}}", token):
        raise InvalidArgument(  # by its length: messages never contain the token
            "token",
            expected=f"{MIN_TOKEN} to {MAX_TOKEN:,} printable ASCII characters, no spaces",
            got=f"{len(token):,} characters" + ("" if token.isascii() else ", some not ASCII"),
            fix=HOW_TO_CREATE,
        )


def read_token(file: Path | None, environ: Mapping[str, str]) -> str | None:
    """Read the token from the file, else from the environment."""
    if file is None:
        token = environ.get(VARIABLE)
    else:
        try:
            with file.open("rb") as opened:
                content = opened.read(4 * MAX_TOKEN)
                mode = os.fstat(opened.fileno()).st_mode
            token = content.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not text"
            # Not chained: a decoding error contains the bytes.
            raise InvalidFile(f"cannot read the token in {file}: {reason}") from None
        if os.name == "posix" and mode & stat.S_IROTH:
            logger.warning("the token in %s is readable by every user: chmod 600", file)
    if token is None:
        return None
    if not token.strip():
        raise SurefindError(f"{file or VARIABLE} has no token", fix=HOW_TO_CREATE)
    return token.strip()


def token_matches(token: str, given: str) -> bool:
    """Compare in constant time."""
    return secrets.compare_digest(token.encode(), given.encode("utf-8", "surrogatepass"))


def session_cookie(token: str, *, secure: bool = False) -> str:
    """Return the Set-Cookie header of a signed-in page; it does not contain the token."""
    name, value = _cookie(token)
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"


def _cookie(token: str) -> tuple[str, str]:
    """Return name and value; the name depends on the token, as cookies ignore ports."""
    name, value = (
        hmac.new(token.encode(), f"surefind {purpose}".encode(), "sha256").hexdigest()
        for purpose in ("name", "session")
    )
    return f"surefind-{name[:8]}", value


def parse_host(text: str) -> tuple[str, int | None] | None:
    """Split a Host header into a normalised name and a port; None if it is invalid."""
    found = _HOST.fullmatch(text)
    if found is None:
        return None
    bracketed, name, port = found[1], found[2], None if found[3] is None else int(found[3])
    address = _address(bracketed or name)
    wrong = bracketed and not isinstance(address, ipaddress.IPv6Address)
    return None if wrong or (port or 0) > 65_535 else (str(address or name.lower()), port)


def known_hosts(bind: str, names: Sequence[str] = ()) -> frozenset[str]:
    """Return the allowed Host names: localhost, the bind address and `names`."""
    known = {"localhost", "127.0.0.1", "::1", str(_address(bind) or bind.lower())}
    for name in names:
        host = parse_host(name)
        if host is None or host[1] is not None:
            expected = "a name without scheme, port or *, e.g. photos.example.com"
            raise InvalidArgument("host name", expected=expected, got=repr(name))
        known.add(host[0])
    return frozenset(known)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


class Guard:
    """Check Host, Origin and token of every request; count every response and add security headers.

    HEAD requests are served by the GET handlers.

    The Host check prevents DNS rebinding: another site's name resolved to this machine. On a
    public address every IP address is allowed too, a rule that Starlette's TrustedHostMiddleware
    does not have.
    """

    def __init__(
        self, app: ASGIApp, bind: str, *, hosts: frozenset[str], token: str | None, responses: Counter
    ) -> None:
        self.app, self._hosts, self._token, self._responses = app, hosts, token, responses
        self._any_address = not is_loopback(bind)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        method = scope["method"]
        if method == "HEAD":  # uvicorn drops the body
            scope = {**scope, "method": "GET"}
        added = _REPORT_HEADERS if scope["path"].startswith("/report/") else _HEADERS

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(added)
                route = getattr(scope.get("route"), "path", "none")
                self._responses.labels(route, method if method in _METHODS else "other", message["status"]).inc()
            await send(message)

        try:
            self._check(scope)
        except Refused as refused:
            await error_response(refused, HTTPConnection(scope))(scope, receive, send_and_count)
        else:
            await self.app(scope, receive, send_and_count)

    def _check(self, scope: Scope) -> None:
        hosts, origins = (
            [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]
            for name in (b"host", b"origin")
        )
        host = parse_host(hosts[0]) if len(hosts) == 1 else None
        if host is None or not (host[0] in self._hosts or (self._any_address and _address(host[0]) is not None)):
            fix = "use the printed address, or start the service with --host-name NAME"
            raise Refused(421, "the Host of the request is not allowed", fix=fix)
        # Browsers do not let other sites read responses.
        same_site = len(origins) == 1 and _is_same_site(origins[0], host)
        if scope["method"] not in ("GET", "OPTIONS") and origins and not same_site:
            fix = "use this service's page, or a program"
            raise Refused(403, "the request comes from a page of another site", fix=fix)
        path = scope["path"]
        # No route below /page/ resolves `..`; refuse it anyway.
        below_page = path.startswith("/page/") and ".." not in path.split("/")
        if not (path in _OPEN_PATHS or below_page or self._is_authorized(scope)):
            fix = "send the header `Authorization: Bearer TOKEN`, or sign in on the page"
            raise Refused(401, "the token is missing or wrong", fix=fix)

    def _is_authorized(self, scope: Scope) -> bool:
        """By header or cookie: a proxy may use the header for its own password."""
        if self._token is None:
            return True
        request, (name, value) = HTTPConnection(scope), _cookie(self._token)
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token_matches(self._token, given.strip(" ")):
            return True
        return token_matches(value, request.cookies.get(name, ""))


def _is_same_site(origin: str, host: tuple[str, int | None]) -> bool:
    """Compare name and port; the scheme may differ behind a TLS proxy."""
    scheme, _, rest = origin.partition("://")
    place = parse_host(rest)
    if scheme not in _PORTS or place is None:
        return False
    usual = _PORTS[scheme]
    return place[0] == host[0] and (place[1] or usual) == (host[1] or usual)
