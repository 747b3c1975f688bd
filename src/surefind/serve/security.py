"""Who may ask: bind address, token, Host and Origin of a request, security headers."""

import hmac
import ipaddress
import logging
import os
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.serve.errors import Refused, refusal

VARIABLE = "SUREFIND_TOKEN"
SHORTEST_TOKEN, LONGEST_TOKEN = 16, 1024  # a longer header is likely to be refused on its way
MAKE_ONE = 'make one: python -c "import secrets; print(secrets.token_urlsafe(32))"'

_OPEN_PATHS = {"/", "/healthz", "/readyz", "/v1/session"}  # and everything below /page/
_REPORT = "/report/"
_HOST = re.compile(
    r"(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9._-]{1,253}))(?::([0-9]{1,5}))?", re.IGNORECASE
)
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
# A report is one file with its styles inside; it is shown in a frame of the page, and runs nothing.
_REPORT_HEADERS = _HEADERS | {
    "Content-Security-Policy": (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; sandbox; "
        "frame-ancestors 'self'"
    ),
    "X-Frame-Options": "SAMEORIGIN",
}

logger = logging.getLogger("surefind.serve")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    address = _address(host)
    if address is None:
        return host.lower() == "localhost"  # any other name may lead anywhere
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def check_bind(host: str, token: str | None) -> None:
    """Refuse to listen beyond this machine without a token, and tokens that cannot work."""
    if token is None and not is_loopback(host):
        raise SurefindError(
            f"{host or 'every address'} can be reached from other machines, and there is no token: "
            "whoever reaches it could see the whole gallery",
            fix=f"give a token by --token-file FILE or {VARIABLE}, "
            "or bind to 127.0.0.1 behind a proxy that asks who is there",
        )
    if token is not None and not re.fullmatch(rf"[!-~]{{{SHORTEST_TOKEN},{LONGEST_TOKEN}}}", token):
        raise InvalidArgument(  # by its length alone: a message never holds the token
            "token",
            expected=f"{SHORTEST_TOKEN} to {LONGEST_TOKEN:,} printable ASCII characters, no spaces",
            got=f"{len(token):,}" + ("" if token.isascii() else " with others among them"),
            fix=MAKE_ONE,
        )


def read_token(file: Path | None, environ: Mapping[str, str]) -> str | None:
    """Read the token from the file, else from the environment.

    Never from the command line, which other users of the machine can read.
    """
    if file is None:
        token = environ.get(VARIABLE)
    else:
        try:
            with file.open("rb") as opened:
                content = opened.read(4 * LONGEST_TOKEN)
                mode = os.fstat(opened.fileno()).st_mode
            token = content.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not text"
            # Not chained: a decoding error holds the bytes.
            raise InvalidFile(f"cannot read the token in {file}: {reason}") from None
        if os.name == "posix" and mode & stat.S_IROTH:
            logger.warning("every user of this machine can read the token in %s: chmod 600", file)
    if token is None:
        return None
    if not token.strip():
        raise SurefindError(f"{file or VARIABLE} holds no token", fix=MAKE_ONE)
    return token.strip()


def is_right(token: str, given: str) -> bool:
    """Compare in constant time."""
    return secrets.compare_digest(token.encode(), given.encode("utf-8", "surrogatepass"))


def session_cookie(token: str, *, secure: bool = False) -> str:
    """The Set-Cookie header for a page that gave the token; the cookie proves it without it."""
    name, value = _cookie(token)
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"


def _cookie(token: str) -> tuple[str, str]:
    """Name and value. Cookies do not know ports: two services of one machine have two names."""
    name, value = (
        hmac.new(token.encode(), f"surefind {purpose}".encode(), "sha256").hexdigest()
        for purpose in ("name", "session")
    )
    return f"surefind-{name[:8]}", value


def parse_host(text: str) -> tuple[str, int | None] | None:
    """Split a Host header into a normalised name and a port; None if it is no host."""
    found = _HOST.fullmatch(text)
    if found is None:
        return None
    bracketed, name, port = found[1], found[2], None if found[3] is None else int(found[3])
    address = _address(bracketed or name)
    wrong = bracketed and not isinstance(address, ipaddress.IPv6Address)
    return None if wrong or (port or 0) > 65_535 else (str(address or name.lower()), port)


def known_hosts(bind: str, names: Sequence[str] = ()) -> frozenset[str]:
    """Names that requests may ask for: of the address it is bound to, and those it goes by."""
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
    """Check Host, Origin and token of every request; set security headers on every response.

    The host comes first: a page of another site could have its own name resolved to this machine
    (DNS rebinding) to read the gallery through a visitor's browser. Beyond this machine an IP
    address is as good as a name of ours, since nobody else decides where it leads: a rule that
    Starlette's TrustedHostMiddleware does not have.
    """

    def __init__(
        self, app: ASGIApp, bind: str, *, hosts: frozenset[str], token: str | None
    ) -> None:
        self.app, self._hosts, self._token = app, hosts, token
        self._any_address = not is_loopback(bind)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        added = _REPORT_HEADERS if scope["path"].startswith(_REPORT) else _HEADERS

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(added)
            await send(message)

        try:
            self._check(scope)
        except Refused as refused:
            await refusal(refused, HTTPConnection(scope))(scope, receive, send_with_headers)
        else:
            await self.app(scope, receive, send_with_headers)

    def _check(self, scope: Scope) -> None:
        hosts, origins = (
            [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]
            for name in (b"host", b"origin")
        )
        host = parse_host(hosts[0]) if len(hosts) == 1 else None
        if host is None or not (
            host[0] in self._hosts or (self._any_address and _address(host[0]) is not None)
        ):
            fix = "use the address it prints at its start, or start it with --host-name NAME"
            raise Refused(421, "this service does not go by the host that was asked for", fix=fix)
        # Reading is left to the browser, which lets no other site see the answer.
        reading = scope.get("method") in ("GET", "HEAD", "OPTIONS")  # a WebSocket has no method
        if not reading and origins and not (len(origins) == 1 and _is_same(origins[0], host)):
            fix = "use this service's own page, or a program instead of a page"
            raise Refused(403, "the request comes from a page of another site", fix=fix)
        path = scope["path"]
        # Nothing below /page/ routes `..`, and nothing that did should open other doors.
        below_page = path.startswith("/page/") and ".." not in path.split("/")
        if not (path in _OPEN_PATHS or below_page or self._is_known(scope)):
            fix = "send the header `Authorization: Bearer TOKEN`, or give the token to the page"
            raise Refused(401, "the token is missing or wrong", fix=fix)

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


def _is_same(origin: str, host: tuple[str, int | None]) -> bool:
    """Same name and port; the scheme may differ, since a proxy may have added TLS."""
    scheme, _, rest = origin.partition("://")
    place = parse_host(rest)
    if scheme not in _PORTS or place is None:
        return False
    usual = _PORTS[scheme]
    return place[0] == host[0] and (place[1] or usual) == (host[1] or usual)
