"""What several routes need: parameters, refusals, questions with a place and a deadline."""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Annotated, Any, TypeVar

from fastapi import Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from surefind.serve.asking import Answered, Ask
from surefind.serve.gallery.items import id_of
from surefind.serve.guards.bodies import read_body
from surefind.serve.guards.refused import Refused
from surefind.serve.hall import Hall
from surefind.serve.schemas import ErrorAnswer
from surefind.serve.settings import MAX_EXPAND, MAX_K

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

K = Annotated[int, Query(ge=1, le=MAX_K, description="Hits; all if there are fewer.")]
Ranking = Annotated[
    str | None, Query(description="By mean or expected distance; the index's own if not given.")
]
Where = Annotated[
    list[str] | None,
    Query(
        description="Only such images: label=cat, year>=2020, var<0.1. Repeatable.", max_length=16
    ),
]
Expand = Annotated[
    int, Query(ge=0, le=MAX_EXPAND, description="Neighbours that help the query, by certainty.")
]

_MEANINGS = {
    400: "The question cannot be asked so.",
    401: "No token that is right was given.",
    403: "The request comes from a page of another site.",
    404: "There is no such thing.",
    408: "The body came too slowly.",
    409: "The index does not take such questions.",
    413: "The body is too long.",
    415: "The body is not raw bytes of an image.",
    421: "The request asks for another host.",
    422: "A parameter or the image cannot be used.",
    503: "Too busy, or the index's server is away; Retry-After says when to come back.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the description of a route; who may ask is the same for all."""
    return {
        status: {"model": ErrorAnswer, "description": _MEANINGS[status]}
        for status in (401, 403, 421, *statuses)
    }


async def ask_of(
    k: K = 12, ranking: Ranking = None, where: Where = None, expand: Expand = 0
) -> Ask:
    return Ask(k, ranking, tuple(where or ()), expand)


def known_id(item: str) -> str:
    """The id behind the name in a URL."""
    name = id_of(item)
    if name is None:
        raise Refused(404, "there is no such item", fix="use the links of a search's answer")
    return name


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """How a route describes the body that it reads by `read_json`."""
    schema = {"schema": model.model_json_schema()}
    return {"requestBody": {"required": True, "content": {"application/json": schema}}}


async def read_json(hall: Hall, request: Request, model: type[M], *, most: int) -> M:
    """A small body; FastAPI itself would read one of any length, for any time."""
    seconds = hall.settings.upload_seconds
    content = await read_body(request, most=most, seconds=seconds, room=hall.uploads)
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_context=False)) from None


async def in_its_place(hall: Hall, request: Request, work: Callable[[], Awaitable[T]]) -> T:
    """Work that takes one of the places, ends in time, and stops when nobody waits for it."""
    with hall.admission.place():
        task = asyncio.ensure_future(work())
        gone = asyncio.ensure_future(_until_gone(request))
        try:
            await asyncio.wait(
                {task, gone},
                timeout=hall.settings.answer_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if task.done():
                return task.result()
            if gone.done():
                raise ClientDisconnect
            raise hall.admission.late(hall.settings.answer_seconds)
        finally:
            task.cancel()
            gone.cancel()


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def observed(hall: Hall, answered: Answered, begun: float) -> Answered:
    """Counted, with the time since `begun`."""
    answered = answered.after(perf_counter() - begun)
    for stage, spent in vars(answered.seconds).items():
        hall.meters.seconds.labels(stage).observe(spent)
    hall.meters.verdicts.labels(answered.result.verdict or "none").inc()
    return answered
