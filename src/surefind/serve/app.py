"""The service as an ASGI app: routes, guards around them, and errors in one form."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp

import surefind
from surefind.engines.engine import EngineError
from surefind.errors import InvalidArgument, SurefindError
from surefind.images.decode import FORMATS, ImageRejected
from surefind.search.picture_files import PictureUnavailable
from surefind.search.query import UnknownItem
from surefind.serve.guards.guarded import guarded
from surefind.serve.guards.refused import Refused, answer_nobody, error_body, refusal
from surefind.serve.hall import Hall, hall_of
from surefind.serve.head import HeadAsGet
from surefind.serve.meters import CountRequests
from surefind.serve.routes import about, docs, health, items, page, searching, session
from surefind.serve.service import TakesNoImages
from surefind.serve.shelf import Shown

PAUSE = 5  # seconds for an engine's server to come back

STATUS = {  # of errors that a client can act on; the first that fits
    TakesNoImages: 409,
    UnknownItem: 404,
    PictureUnavailable: 404,
    EngineError: 503,
    InvalidArgument: 400,
}

logger = logging.getLogger("surefind.serve")


def make_app(hall: Hall) -> ASGIApp:
    """All routes, behind all guards; at its end the hall is closed."""
    app = FastAPI(
        title="surefind",
        version=surefind.__version__,
        summary="Image retrieval that knows how sure it is.",
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.hall = hall
    for part in (searching, items, about, health, session, docs, page):
        app.include_router(part.router)
    for kind in (SurefindError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _answer_error)
    app.add_exception_handler(ClientDisconnect, answer_nobody)
    app.add_exception_handler(Exception, _answer_failure)
    safe = guarded(HeadAsGet(app), hosts=hall.hosts, token=hall.settings.token)
    return CountRequests(safe, hall.meters)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    hall: Hall = app.state.hall
    looking = asyncio.create_task(hall.keep_looking())
    try:
        yield
    finally:
        await hall.close(looking)


async def _answer_error(request: Request, error: Exception) -> Response:
    refused = _refused(error, hall_of(request).service.shelf.now)
    if refused.status == 500:
        logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    if isinstance(error, EngineError):
        logger.warning("%s %s: %s", request.method, request.url.path, error.problem)
    if refused.status != 404:
        hall_of(request).meters.rejects.labels(_reason(error, refused)).inc()
    response = refusal(refused, request)
    response.headers.update(getattr(error, "headers", None) or {})  # such as Allow
    return response


async def _answer_failure(request: Request, error: Exception) -> Response:
    """What should not happen: told without details, which are in the log."""
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    body = error_body("the service failed", "the server's log says why; please report it")
    return JSONResponse(body, status_code=500, headers={"Connection": "close"})


def _refused(error: Exception, shown: Shown) -> Refused:
    if isinstance(error, Refused):
        return error
    if isinstance(error, RequestValidationError):
        return Refused(422, _first_problem(error), fix="see /docs")
    if isinstance(error, HTTPException):
        return Refused(error.status_code, str(error.detail), fix="see /docs")
    if isinstance(error, ImageRejected):
        kinds = ", ".join(FORMATS)
        return Refused(
            422, f"this image cannot be used: {error.reason}", fix=f"send a whole file: {kinds}"
        )
    assert isinstance(error, SurefindError)
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
    pause = PAUSE if status == 503 else None
    fix = shown.without_folder(error.fix or "")
    return Refused(status, shown.public(error), fix=fix, retry_after=pause)


def _reason(error: Exception, refused: Refused) -> str:
    if isinstance(error, ImageRejected):
        return "image"
    names = {401: "token", 408: "slow", 413: "too long", 503: "busy"}
    return names.get(refused.status, "other")


def _first_problem(error: RequestValidationError) -> str:
    found = error.errors()[0]
    place = ".".join(str(part) for part in found["loc"][1:]) or "the request"
    return f"{place}: {found['msg']}"
