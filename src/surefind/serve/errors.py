"""Refused requests and how they are answered."""

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from surefind.errors import SurefindError


class Refused(SurefindError):
    """A request that is refused; `retry_after` is whole seconds."""

    def __init__(
        self, status: int, problem: str, *, fix: str, retry_after: int | None = None
    ) -> None:
        super().__init__(problem, fix=fix)
        self.status, self.retry_after = status, retry_after


def refusal(refused: Refused, asked: HTTPConnection) -> Response:
    """The response; an announced body is not waited for, the connection ends instead."""
    announced = asked.headers.get("content-length", "0") != "0"
    headers = {}
    if refused.retry_after is not None:
        headers["Retry-After"] = str(refused.retry_after)
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if refused.status == 500 or announced or "transfer-encoding" in asked.headers:
        headers["Connection"] = "close"
    body = {"error": {"problem": refused.problem, "fix": refused.fix or ""}}
    return JSONResponse(body, status_code=refused.status, headers=headers)
