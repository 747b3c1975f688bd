"""The name a request asks for must be one of ours.

Otherwise a page of a stranger could have its own name resolved to this machine (DNS rebinding) and
read the gallery through the visitor's browser.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from surefind.errors import InvalidArgument
from surefind.serve.guards.binding import is_loopback
from surefind.serve.guards.refused import Refused, send_refusal

_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::([0-9]{1,5}))?", re.IGNORECASE)
_ORIGIN = re.compile(r"(https?)://(.*)")
_PORTS = {"http": 80, "https": 443}
_CHANGES_NOTHING = {"GET", "HEAD", "OPTIONS"}


class Place(NamedTuple):
    """What a Host header names: in small letters, an address of IPv6 without its brackets."""

    name: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> "Place | None":
        """Nothing where it is no host.

        >>> Place.parse("LocalHost:8000"), Place.parse("[::1]"), Place.parse("a@b")
        (Place(name='localhost', port=8000), Place(name='::1', port=None), None)
        """
        found = _HOST.fullmatch(text)
        if found is None:
            return None
        name, port = _plain(found[1].strip("[]")), None if found[2] is None else int(found[2])
        odd = found[1].startswith("[") != (":" in name) or (port is not None and port > 65_535)
        return None if odd else cls(name, port)


@dataclass(frozen=True)
class Hosts:
    """Names that requests may ask for, at any port."""

    names: frozenset[str]
    addresses: bool  # also any address: unlike a name, nobody else decides where it leads

    def allow(self, place: Place) -> bool:
        return place.name in self.names or (self.addresses and _is_address(place.name))


def allowed_hosts(bind: str, names: Sequence[str]) -> Hosts:
    """Those that lead to the address it is bound to, and the names it is known by."""
    known = {"localhost", "127.0.0.1", "::1", _plain(bind)}
    for name in names:
        place = Place.parse(name)
        if place is None or place.port is not None:
            raise InvalidArgument(
                "host name",
                expected="a name without scheme, port or *",
                got=repr(name),
                fix="e.g. photos.example.com",
            )
        known.add(place.name)
    return Hosts(frozenset(known), addresses=not is_loopback(bind))


class CheckHost:
    """Refuses names that are not ours, and changes that pages of others ask for."""

    def __init__(self, app: ASGIApp, allowed: Hosts) -> None:
        self.app, self.allowed = app, allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            try:
                self._check(scope)
            except Refused as refused:
                await send_refusal(refused, scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        hosts = _values(scope, b"host")
        place = Place.parse(hosts[0]) if len(hosts) == 1 else None
        if place is None or not self.allowed.allow(place):
            raise Refused(
                421,
                "the request asks for a host that this service does not go by",
                fix="use the address it prints at its start, or start it with --host-name NAME",
            )
        if not _may_ask(scope, place):
            raise Refused(
                403,
                "the request comes from a page of another site",
                fix="use this service's own page, or a program instead of a page",
            )


def _may_ask(scope: Scope, host: Place) -> bool:
    """Reading is left to the browser, which lets no other site see the answer."""
    origins = _values(scope, b"origin")
    reading = scope.get("method") in _CHANGES_NOTHING  # a WebSocket has no method, and may not
    return reading or not origins or (len(origins) == 1 and _is_ours(origins[0], host))


def _is_ours(origin: str, host: Place) -> bool:
    """The same name and port; the scheme may differ, since a proxy may have added TLS."""
    found = _ORIGIN.fullmatch(origin)
    place = None if found is None else Place.parse(found[2])
    if found is None or place is None:
        return False
    usual = _PORTS[found[1]]
    ports = [usual if one.port is None else one.port for one in (place, host)]
    return place.name == host.name and ports[0] == ports[1]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _plain(name: str) -> str:
    """One way to write it: an address may have many."""
    return str(ipaddress.ip_address(name)) if _is_address(name) else name.lower()


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]
