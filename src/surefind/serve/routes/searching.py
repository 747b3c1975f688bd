"""Which images are nearest to this one, and how sure is that?"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Annotated

import torch
from fastapi import APIRouter, Depends, Request, Response

from surefind.errors import InvalidArgument
from surefind.serve.answers import search_answer, server_timing
from surefind.serve.asking import Answered, Ask
from surefind.serve.guards.bodies import uploaded
from surefind.serve.guards.refused import Refused
from surefind.serve.hall import Hall, hall_of
from surefind.serve.routes.common import (
    ask_of,
    in_its_place,
    json_body,
    observed,
    problems,
    read_json,
)
from surefind.serve.schemas import EmbeddingAnswer, SearchAnswer, Vector

router = APIRouter(prefix="/v1", tags=["search"])

VECTOR_BYTES = 4 * 2**20  # of its JSON

Asking = Annotated[Ask, Depends(ask_of)]

_WRAPPED = ("multipart/", "application/json")  # the image would have to be unwrapped
_IMAGE = {
    "requestBody": {
        "required": True,
        "description": "The bytes of an image file, as they are.",
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in ("image/jpeg", "image/png", "application/octet-stream")
        },
    }
}


@router.post("/search", responses=problems(400, 408, 409, 413, 415, 422, 503), openapi_extra=_IMAGE)
async def search(request: Request, response: Response, ask: Asking) -> SearchAnswer:
    """Find the nearest images of the one that is sent, and say how sure that is."""
    hall, begun = hall_of(request), perf_counter()
    async with _image(hall, request) as content:
        answered = await in_its_place(hall, request, lambda: hall.service.search(content, ask))
    return _sent(hall, answered, response, begun)


@router.post("/embed", responses=problems(400, 408, 409, 413, 415, 422, 503), openapi_extra=_IMAGE)
async def embed(request: Request) -> EmbeddingAnswer:
    """The embedding of the image that is sent: a mean, and how vague it is."""
    hall = hall_of(request)
    async with _image(hall, request) as content:
        encoded = await in_its_place(hall, request, lambda: hall.service.encode(content))
    index = hall.service.shelf.now.index
    return EmbeddingAnswer(
        family=encoded.embedding.family,
        mean=encoded.embedding.mean[0].tolist(),
        var=float(index.space.var(encoded.embedding)[0]),
        fingerprint=index.fingerprint,
    )


@router.post(
    "/search/vector",
    responses=problems(400, 408, 409, 413, 422, 503),
    openapi_extra=json_body(Vector),
)
async def search_vector(request: Request, response: Response, ask: Asking) -> SearchAnswer:
    """The same for a vector, of an index that `surefind upgrade` made."""
    hall, begun = hall_of(request), perf_counter()
    if hall.upgrade is None:
        raise Refused(
            409, "this index takes images, not vectors", fix="send an image to /v1/search"
        )
    given = await read_json(hall, request, Vector, most=VECTOR_BYTES)
    vector = torch.tensor([given.vector], dtype=torch.float32)
    if not torch.isfinite(vector).all():
        raise InvalidArgument(
            "vector", expected="finite numbers", got="others", fix="look for a diverged model"
        )
    query = hall.upgrade.embed(vector)
    answered = await in_its_place(hall, request, lambda: hall.service.search_embedding(query, ask))
    return _sent(hall, answered, response, begun)


@asynccontextmanager
async def _image(hall: Hall, request: Request) -> AsyncIterator[bytes]:
    """The body, if there is a place for it; read before it takes one, as it may come slowly."""
    kind = request.headers.get("content-type", "")
    if kind.lower().startswith(_WRAPPED):
        raise Refused(
            415,
            f"the body is {kind.partition(';')[0]}, not an image",
            fix="send the file as it is: curl --data-binary @photo.jpg",
        )
    hall.admission.check()
    limits = hall.settings
    async with uploaded(
        request, most=limits.max_bytes, seconds=limits.upload_seconds, room=hall.uploads
    ) as content:
        yield content


def _sent(hall: Hall, answered: Answered, response: Response, begun: float) -> SearchAnswer:
    answered = observed(hall, answered, begun)
    response.headers["Server-Timing"] = server_timing(answered.seconds)
    return search_answer(answered)
