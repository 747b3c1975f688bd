"""Requests that are not answered as they were meant: why, and what to do instead."""

from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from surefind.errors import SurefindError

NOBODY_THERE = 499  # no status of HTTP: nobody reads it but the logs and the counters
_POLICY_VIOLATION = 1008  # of the WebSocket protocol


class Refused(SurefindError):
    """A request that is refused; `retry_after` is whole seconds."""

    def __init__(
        self, status: int, problem: str, *, fix: str, retry_after: int | None = None
    ) -> None:
        super().__init__(problem, fix=fix)
        self.status, self.retry_after = status, retry_after


def error_body(problem: str, fix: str) -> dict[str, dict[str, str]]:
    """How every route tells an error."""
    return {"error": {"problem": problem, "fix": fix}}


def refusal(refused: Refused, asked: HTTPConnection) -> Response:
    """The answer. A body that was announced is not waited for: the connection ends instead."""
    headers = {}
    if refused.retry_after is not None:
        headers["Retry-After"] = str(refused.retry_after)
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if _announces_a_body(asked):
        headers["Connection"] = "close"
    body = error_body(refused.problem, refused.fix or "")
    return JSONResponse(body, status_code=refused.status, headers=headers)


async def answer_nobody(_: Request, gone: Exception) -> Response:
    """A handler for `ClientDisconnect`: what is answered now goes nowhere."""
    assert isinstance(gone, ClientDisconnect)
    return Response(status_code=NOBODY_THERE)


async def send_refusal(refused: Refused, scope: Scope, receive: Receive, send: Send) -> None:
    """The answer of a guard before the app; a WebSocket is closed before it is opened."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        return
    await refusal(refused, HTTPConnection(scope))(scope, receive, send)


def _announces_a_body(asked: HTTPConnection) -> bool:
    """Without it, HTTP knows no body."""
    return "transfer-encoding" in asked.headers or asked.headers.get("content-length", "0") != "0"
