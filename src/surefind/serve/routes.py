"""HTTP routes: search, items, index information, health, metrics, page."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.resources import files
from time import perf_counter
from typing import Annotated, Literal, TypeVar

import torch
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import ClientDisconnect

from surefind.engines.base import EngineError
from surefind.errors import InvalidArgument
from surefind.serve import responses
from surefind.serve.errors import RETRY, RETRY_AFTER, Refused
from surefind.serve.gallery import MapAnswer, id_of
from surefind.serve.security import session_cookie, token_matches
from surefind.serve.service import NeighbourOptions, SearchOptions, TimedResult
from surefind.serve.state import AppState, state_of

logger = logging.getLogger("surefind.serve")

SIDES = (64, 128, 256, 512)  # of thumbnails; few sizes, for the cache
STAGES = ("decode", "wait", "encode", "search", "total")

T = TypeVar("T")

_STATUSES = (400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 503)
router = APIRouter(responses={status: {"model": responses.ErrorAnswer} for status in _STATUSES})

_IMAGE = {
    "requestBody": {
        "required": True,
        "description": "The bytes of an image file.",
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in ("image/jpeg", "image/png", "application/octet-stream")
        },
    }
}
_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_PAGES = {"/": "index.html", "/docs": "docs.html", "/favicon.ico": "icon.svg"}
# Read once; no other file can be requested.
_FILES = {
    file.name: (file.read_bytes(), _KINDS[file.name.rpartition(".")[2]])
    for file in files("surefind.serve").joinpath("page").iterdir()
    if file.name.rpartition(".")[2] in _KINDS
}


class Vector(BaseModel):
    vector: list[float] = Field(min_length=1, max_length=65_536)


_VECTOR = {"requestBody": {"required": True, "content": {"application/json": {"schema": Vector.model_json_schema()}}}}


async def _known_id(item: str) -> str:
    if (name := id_of(item)) is None:
        raise Refused(404, "no such item")
    return name


State = Annotated[AppState, Depends(state_of)]
Options = Annotated[SearchOptions, Query()]
KnownId = Annotated[str, Depends(_known_id)]


@asynccontextmanager
async def _image(state: AppState, request: Request) -> AsyncIterator[bytes]:
    """Read the image in the body; before it takes a slot, as it may arrive slowly."""
    kind = request.headers.get("content-type", "")
    if kind.lower().startswith(("multipart/", "application/json")):  # not a raw image
        problem = f"the body is {kind.partition(';')[0]}, not an image"
        raise Refused(415, problem, fix="send the raw file: curl --data-binary @photo.jpg")
    state.admission.check()
    async with state.uploads.read(request, most=state.settings.max_bytes) as content:
        yield content


async def run_admitted(state: AppState, request: Request, work: Callable[[], Awaitable[T]]) -> T:
    """Run work under the admission limit and the deadline; cancel it if the client disconnects."""

    async def until_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    seconds = state.settings.answer_seconds
    with state.admission.slot():
        task = asyncio.ensure_future(work())
        gone = asyncio.ensure_future(until_disconnect())
        try:
            await asyncio.wait({task, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if gone.done():
                raise ClientDisconnect
            raise Refused(503, f"no answer within {seconds:g} seconds", fix=RETRY)
        finally:
            task.cancel()
            gone.cancel()


def file_response(request: Request, content: bytes, *, kind: str, cache: str) -> Response:
    """Return a file with its ETag, or 304 if the client has it."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": cache}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)


def finish(state: AppState, found: TimedResult, response: Response, begun: float) -> responses.SearchAnswer:
    """Record metrics and the Server-Timing header; return the response body."""
    seconds = dict.fromkeys(STAGES, 0.0) | found.seconds | {"total": perf_counter() - begun}
    for stage, spent in seconds.items():
        state.metrics.seconds.labels(stage).observe(spent)
    state.metrics.verdicts.labels(found.result.verdict or "none").inc()
    response.headers["Server-Timing"] = ", ".join(f"{name};dur={1000 * spent:.1f}" for name, spent in seconds.items())
    return responses.search_answer(replace(found, seconds=seconds))


@router.post("/v1/search", openapi_extra=_IMAGE, tags=["search"])
async def search(request: Request, response: Response, state: State, options: Options) -> responses.SearchAnswer:
    """Search with the image in the body."""
    begun = perf_counter()
    async with _image(state, request) as content:
        found = await run_admitted(state, request, lambda: state.service.search(content, options))
    return finish(state, found, response, begun)


@router.post("/v1/embed", openapi_extra=_IMAGE, tags=["search"])
async def embed(request: Request, state: State) -> responses.EmbeddingAnswer:
    """Return the embedding of the image in the body."""
    async with _image(state, request) as content:
        embedding, *_ = await run_admitted(state, request, lambda: state.service.encode(content))
    index = state.served.index
    return responses.EmbeddingAnswer(
        family=embedding.family,
        mean=embedding.mean[0].tolist(),
        var=float(index.space.var(embedding)[0]),
        fingerprint=index.fingerprint,
    )


@router.post("/v1/search/vector", openapi_extra=_VECTOR, tags=["search"])
async def search_vector(request: Request, response: Response, state: State, options: Options) -> responses.SearchAnswer:
    """Search with a vector, for an index of vectors."""
    begun = perf_counter()
    if state.embed_vectors is None:
        raise Refused(409, "this index takes images", fix="send an image to /v1/search")
    # FastAPI itself limits neither the size of a body nor the time that it takes.
    async with state.uploads.read(request, most=4 * 2**20) as content:
        try:
            given = Vector.model_validate_json(content)
        except ValidationError as error:
            raise RequestValidationError(error.errors(include_context=False)) from None
    vector = torch.tensor([given.vector], dtype=torch.float32)
    if not torch.isfinite(vector).all():
        raise InvalidArgument("vector", expected="finite values", got="NaN or infinity")
    embedding = state.embed_vectors(vector)
    found = await run_admitted(state, request, lambda: state.service.search_embedding(embedding, options))
    return finish(state, found, response, begun)


@router.get("/v1/items/{item}", tags=["items"])
async def item(state: State, name: KnownId) -> responses.Item:
    """Return the metadata of an image."""
    row = await state.service.in_thread(lambda: state.row(name))
    return responses.item_answer(row, state.served.index.space)


@router.get("/v1/items/{item}/neighbours", tags=["items"])
async def neighbours(
    request: Request, response: Response, state: State, name: KnownId, options: Annotated[NeighbourOptions, Query()]
) -> responses.SearchAnswer:
    """Search with an indexed image, which is not its own hit."""
    begun = perf_counter()
    found = await run_admitted(state, request, lambda: state.service.neighbours(name, options))
    return finish(state, found, response, begun)


@router.get(
    "/v1/items/{item}/thumbnail",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}}, 304: {}},
    tags=["items"],
)
async def thumbnail(
    request: Request,
    state: State,
    name: KnownId,
    side: Annotated[int, Query(ge=SIDES[0], le=SIDES[-1], description="Maximum of the longer side.")] = 256,
) -> Response:
    """Return a thumbnail."""
    side = max(one for one in SIDES if one <= side)
    content = await state.service.in_thread(lambda: state.thumbnail(name, state.row(name).digests[0], side))
    return file_response(request, content, kind="image/jpeg", cache="private, max-age=3600")


@router.get("/v1/info", tags=["index"])
async def info(state: State) -> responses.InfoAnswer:
    """Return the index, its calibration, variances and limits."""
    return await state.service.in_thread(lambda: responses.info_answer(state))


@router.get("/v1/map", responses={202: {"model": MapAnswer}}, tags=["index"])
async def gallery_map(response: Response, state: State) -> MapAnswer:
    """Return a 2-D projection of the indexed images; 202 while it is computed."""
    _, drawn = await state.service.in_thread(state.overview)
    answer = drawn.answer()
    if not answer.ready:
        response.status_code, response.headers["Retry-After"] = 202, str(RETRY_AFTER)
    return answer


@router.get(
    "/v1/samples/{number}", response_class=Response, responses={200: {"content": {"image/png": {}}}}, tags=["index"]
)
async def sample(state: State, number: Annotated[int, Path(ge=0, lt=1000)]) -> Response:
    """Return an example query."""
    if state.samples is None or number >= len(state.samples):
        raise Refused(404, "no such sample", fix="see /v1/info")
    return Response(state.samples[number][1], media_type="image/png")


@router.get("/healthz", tags=["health"])
async def healthz() -> dict[Literal["ok"], bool]:
    """Return ok: the process is alive."""
    return {"ok": True}


@router.get("/readyz", responses={503: {"model": responses.ReadyAnswer}}, tags=["health"])
async def readyz(response: Response, state: State) -> responses.ReadyAnswer:
    """Return whether searches work, and from which version of the index."""
    served = state.served
    warnings = served.warnings
    try:
        images = await state.service.in_thread(lambda: len(served.index))
    except EngineError as error:
        logger.warning("not ready: %s", error.problem)
        images, warnings = None, [*warnings, served.public_message(error)]
        response.status_code = 503
    return responses.ReadyAnswer(
        ready=images is not None, version=served.version, images=images, warnings=warnings, reload=served.reload_error
    )


@router.get("/metrics", response_class=Response, tags=["health"])
async def metrics(state: State) -> Response:
    """Return Prometheus metrics."""
    counted, service = state.metrics, state.service
    counted.in_flight.set(state.admission.in_flight)
    counted.queue.labels("search").set(len(service.searches))
    if service.images is not None:
        counted.queue.labels("encode").set(len(service.images))
    counted.images.set(state.served.images)
    counted.reloads.set(service.live.reloads)
    return Response(generate_latest(counted.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/", include_in_schema=False)
@router.get("/docs", include_in_schema=False)
@router.get("/favicon.ico", include_in_schema=False)
@router.get("/page/{name}", include_in_schema=False)
async def page(request: Request) -> Response:
    name = request.path_params.get("name") or _PAGES[request.url.path]
    if name not in _FILES:
        raise Refused(404, "no such file")
    content, kind = _FILES[name]
    return file_response(request, content, kind=kind, cache="no-cache")


@router.get("/report/", response_class=Response, include_in_schema=False)
async def report(state: State) -> Response:
    if state.report is None:
        raise Refused(404, "no report", fix="surefind serve INDEX --report REPORT")
    return Response(state.report, media_type="text/html")


@router.post("/v1/session", status_code=204, response_class=Response, tags=["session"])
async def session(request: Request, state: State, token: Annotated[str, Header()]) -> Response:
    """Exchange the token for a session cookie."""
    own, headers = state.settings.token, {}
    if own is not None:  # else none is required
        if not token_matches(own, token):
            raise Refused(401, "wrong token")
        headers["Set-Cookie"] = session_cookie(own, secure=request.url.scheme == "https")
    return Response(status_code=204, headers=headers)
