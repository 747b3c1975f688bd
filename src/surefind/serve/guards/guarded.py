"""All guards that stand before the app, in the order that they must have."""

from starlette.types import ASGIApp

from surefind.serve.guards.headers import SecurityHeaders
from surefind.serve.guards.hosts import CheckHost, Hosts
from surefind.serve.guards.tokens import CheckToken


def guarded(app: ASGIApp, *, hosts: Hosts, token: str | None) -> ASGIApp:
    """Headers outside, so that refusals and the app's own failures have them too; then the host,
    so that a page of a stranger learns nothing about the token.
    """
    return SecurityHeaders(CheckHost(CheckToken(app, token), hosts))
