"""Search by image or vector, embed; parameters and helpers shared by other routes."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from time import perf_counter
from typing import Annotated, Any, TypeVar

import torch
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import ClientDisconnect

from surefind.errors import InvalidArgument
from surefind.serve.errors import RETRY, Refused
from surefind.serve.responses import EmbeddingAnswer, ErrorAnswer, SearchAnswer, search_answer
from surefind.serve.service import SearchOptions, TimedResult
from surefind.serve.settings import MAX_EXPAND, MAX_K
from surefind.serve.state import AppState, state_of

router = APIRouter(prefix="/v1", tags=["search"])

VECTOR_BYTES = 4 * 2**20  # of JSON

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

K = Annotated[int, Query(ge=1, le=MAX_K, description="Number of hits.")]
Ranking = Annotated[str | None, Query(description="mean or expected; default: the index's own.")]
Where = Annotated[
    list[str] | None, Query(max_length=16, description="Filters: label=cat, year>=2020, var<0.1.")
]
Expand = Annotated[int, Query(ge=0, le=MAX_EXPAND, description="Neighbours for query expansion.")]

_WRAPPED = ("multipart/", "application/json")  # not a raw image
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


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI error responses of a route; those of access control are the same for all."""
    return {status: {"model": ErrorAnswer} for status in (401, 403, 421, *statuses)}


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """OpenAPI description of a body read by `read_json`."""
    schema = {"schema": model.model_json_schema()}
    return {"requestBody": {"required": True, "content": {"application/json": schema}}}


async def _options(
    k: K = 12, ranking: Ranking = None, where: Where = None, expand: Expand = 0
) -> SearchOptions:
    return SearchOptions(k, ranking, tuple(where or ()), expand)


Options = Annotated[SearchOptions, Depends(_options)]


class Vector(BaseModel):
    vector: list[float] = Field(min_length=1, max_length=65_536)


@router.post("/search", responses=problems(400, 408, 409, 413, 415, 422, 503), openapi_extra=_IMAGE)
async def search(request: Request, response: Response, options: Options) -> SearchAnswer:
    """Search with the image in the body."""
    state, begun = state_of(request), perf_counter()
    async with _image(state, request) as content:
        found = await run_admitted(request, lambda: state.service.search(content, options))
    return finish(state, found, response, begun)


@router.post("/embed", responses=problems(400, 408, 409, 413, 415, 422, 503), openapi_extra=_IMAGE)
async def embed(request: Request) -> EmbeddingAnswer:
    """Return the embedding of the image in the body."""
    state = state_of(request)
    async with _image(state, request) as content:
        embedding, *_ = await run_admitted(request, lambda: state.service.encode(content))
    index = state.service.live.current.index
    return EmbeddingAnswer(
        family=embedding.family,
        mean=embedding.mean[0].tolist(),
        var=float(index.space.var(embedding)[0]),
        fingerprint=index.fingerprint,
    )


@router.post(
    "/search/vector",
    responses=problems(400, 408, 409, 413, 422, 503),
    openapi_extra=json_body(Vector),
)
async def search_vector(request: Request, response: Response, options: Options) -> SearchAnswer:
    """Search with a vector, for an index made by `surefind upgrade`."""
    state, begun = state_of(request), perf_counter()
    if state.upgrade is None:
        problem = "this index takes images, not vectors"
        raise Refused(409, problem, fix="send an image to /v1/search")
    given = await read_json(request, Vector, most=VECTOR_BYTES)
    vector = torch.tensor([given.vector], dtype=torch.float32)
    if not torch.isfinite(vector).all():
        raise InvalidArgument("vector", expected="finite values", got="NaN or infinity")
    embedding = state.upgrade.embed(vector)
    found = await run_admitted(request, lambda: state.service.search_embedding(embedding, options))
    return finish(state, found, response, begun)


@asynccontextmanager
async def _image(state: AppState, request: Request) -> AsyncIterator[bytes]:
    """Read the image in the body; before it takes a slot, as it may arrive slowly."""
    kind = request.headers.get("content-type", "")
    if kind.lower().startswith(_WRAPPED):
        problem = f"the body is {kind.partition(';')[0]}, not an image"
        raise Refused(415, problem, fix="send the raw file: curl --data-binary @photo.jpg")
    state.admission.check()
    async with state.uploads.read(request, most=state.settings.max_bytes) as content:
        yield content


async def read_json(request: Request, model: type[M], *, most: int) -> M:
    """Read a JSON body with limits on size and time, which FastAPI does not have."""
    async with state_of(request).uploads.read(request, most=most) as content:
        try:
            return model.model_validate_json(content)
        except ValidationError as error:
            raise RequestValidationError(error.errors(include_context=False)) from None


async def run_admitted(request: Request, work: Callable[[], Awaitable[T]]) -> T:
    """Run work under the admission limit and the deadline; cancel it if the client disconnects."""

    async def until_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    state = state_of(request)
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


def finish(state: AppState, found: TimedResult, response: Response, begun: float) -> SearchAnswer:
    """Record metrics and the Server-Timing header; return the response body."""
    seconds = replace(found.seconds, total=perf_counter() - begun)
    for stage, spent in vars(seconds).items():
        state.metrics.seconds.labels(stage).observe(spent)
    state.metrics.verdicts.labels(found.result.verdict or "none").inc()
    timing = (f"{stage};dur={1000 * spent:.1f}" for stage, spent in vars(seconds).items())
    response.headers["Server-Timing"] = ", ".join(timing)
    return search_answer(replace(found, seconds=seconds))
