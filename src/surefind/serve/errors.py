"""Refused requests and how they are answered."""

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from surefind.errors import SurefindError

CLIENT_CLOSED_REQUEST = 499  # no status of HTTP: only logs and counters see it
_POLICY_VIOLATION = 1008  # of the WebSocket protocol


class Refused(SurefindError):
    """A request that is refused; `retry_after` is whole seconds."""

    def __init__(
        self, status: int, problem: str, *, fix: str, retry_after: int | None = None
    ) -> None:
        super().__init__(problem, fix=fix)
        self.status, self.retry_after = status, retry_after


def error_body(problem: str, fix: str) -> dict[str, dict[str, str]]:
    """The JSON of every error."""
    return {"error": {"problem": problem, "fix": fix}}


def refusal(refused: Refused, asked: HTTPConnection) -> Response:
    """The response; an announced body is not waited for, the connection ends instead."""
    headers = {}
    if refused.retry_after is not None:
        headers["Retry-After"] = str(refused.retry_after)
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if "transfer-encoding" in asked.headers or asked.headers.get("content-length", "0") != "0":
        headers["Connection"] = "close"
    body = error_body(refused.problem, refused.fix or "")
    return JSONResponse(body, status_code=refused.status, headers=headers)


async def send_refusal(refused: Refused, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse before the app is reached; a WebSocket is closed before it is opened."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        return
    await refusal(refused, HTTPConnection(scope))(scope, receive, send)


async def handle_client_disconnect(_: Request, __: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED_REQUEST)
