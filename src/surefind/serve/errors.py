"""Refused requests and their HTTP responses."""

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from surefind.errors import SurefindError

RETRY_AFTER = 2  # seconds, in every 503 response
RETRY = "retry after the seconds given in Retry-After"


class Refused(SurefindError):
    """A request refused with an HTTP status."""

    def __init__(self, status: int, problem: str, *, fix: str | None = None) -> None:
        super().__init__(problem, fix=fix)
        self.status = status


def error_response(refused: Refused, request: HTTPConnection) -> Response:
    """Return the JSON error; close the connection instead of waiting for an announced body."""
    headers = {}
    if refused.status == 503:
        headers["Retry-After"] = str(RETRY_AFTER)
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    has_body = request.headers.get("content-length", "0") != "0"
    if refused.status == 500 or has_body or "transfer-encoding" in request.headers:
        headers["Connection"] = "close"
    body = {"error": {"problem": refused.problem, "fix": refused.fix or ""}}
    return JSONResponse(body, status_code=refused.status, headers=headers)
