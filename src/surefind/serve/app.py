"""The service as an ASGI app: routes, guards around them, and errors in one form."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import surefind
from surefind.engines.base import EngineError
from surefind.errors import InvalidArgument, SurefindError
from surefind.images.decode import FORMATS, ImageRejected
from surefind.search.image_files import PictureUnavailable
from surefind.search.query import UnknownItem
from surefind.serve.errors import Refused, refusal
from surefind.serve.metrics import Metrics
from surefind.serve.routes import info, items, pages, search
from surefind.serve.security import Guard
from surefind.serve.service import ServedVersion
from surefind.serve.state import AppState, state_of

PAUSE = 5  # seconds for an engine's server to come back
CLIENT_CLOSED_REQUEST = 499  # no status of HTTP: only logs and counters see it
METHODS = ("GET", "HEAD", "POST")  # a client may invent others, as many as it likes

STATUS = {  # of errors that a client can act on; the first that fits
    UnknownItem: 404,
    PictureUnavailable: 404,
    EngineError: 503,
    InvalidArgument: 400,
}
REASONS = {401: "token", 408: "slow", 413: "too long", 503: "busy"}  # for the metrics

logger = logging.getLogger("surefind.serve")


def make_app(state: AppState) -> ASGIApp:
    """All routes behind all guards; the service is closed at its end."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        reloading = asyncio.create_task(state.keep_reloading())
        yield
        reloading.cancel()
        await asyncio.to_thread(state.service.close)

    app = FastAPI(
        title="surefind",
        version=surefind.__version__,
        summary="Image retrieval that knows how sure it is.",
        docs_url=None,  # Swagger and ReDoc would load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.surefind = state
    for part in (search, items, info, pages):
        app.include_router(part.router)
    for kind in (SurefindError, RequestValidationError, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, _answer_error)
    settings = state.settings
    guarded = Guard(app, settings.host, hosts=state.hosts, token=settings.token)
    return CountRequests(guarded, state.metrics)


class CountRequests:
    """Count each response by its route and method; serve HEAD by the GET routes.

    The server leaves out the body of a HEAD request: it looks at its own scope.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in METHODS else "other"
        asked = {**scope, "method": "GET"} if method == "HEAD" else scope

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(asked.get("route"), "path", "none")
                self.metrics.requests.labels(route, method, message["status"]).inc()
            await send(message)

        await self.app(asked, receive, counting)


async def _answer_error(request: Request, error: Exception) -> Response:
    if isinstance(error, ClientDisconnect):
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    state = state_of(request)
    refused = _refused(error, state.service.live.current)
    if refused.status == 500:
        logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    if isinstance(error, EngineError):
        logger.warning("%s %s: %s", request.method, request.url.path, error.problem)
    if refused.status != 404:
        image = isinstance(error, ImageRejected)
        reason = "image" if image else REASONS.get(refused.status, "other")
        state.metrics.rejected.labels(reason).inc()
    response = refusal(refused, request)
    response.headers.update(getattr(error, "headers", None) or {})  # such as Allow
    return response


def _refused(error: Exception, served: ServedVersion) -> Refused:
    if isinstance(error, Refused):
        return error
    if isinstance(error, RequestValidationError):
        found = error.errors()[0]
        place = ".".join(str(part) for part in found["loc"][1:]) or "the request"
        return Refused(422, f"{place}: {found['msg']}", fix="see /docs")
    if isinstance(error, HTTPException):
        return Refused(error.status_code, str(error.detail), fix="see /docs")
    if isinstance(error, ImageRejected):
        problem = f"this image cannot be used: {error.reason}"
        return Refused(422, problem, fix=f"send a whole file: {', '.join(FORMATS)}")
    if not isinstance(error, SurefindError):  # the details are in the log alone
        fix = "the server's log says why; please report it"
        return Refused(500, "the service failed", fix=fix)
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
    fix = served.without_folder(error.fix or "")
    pause = PAUSE if status == 503 else None
    return Refused(status, served.public(error), fix=fix, retry_after=pause)
