"""Images of the index: what is known of them, how they look, what is like them."""

import hashlib
from time import perf_counter
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from surefind.engines.engine import Rows
from surefind.search.index import Index
from surefind.search.picture_files import read_picture
from surefind.serve.answers import item_answer, search_answer, server_timing
from surefind.serve.asking import Ask
from surefind.serve.guards.refused import Refused
from surefind.serve.hall import Hall, hall_of
from surefind.serve.routes.common import (
    K,
    Ranking,
    Where,
    in_its_place,
    known_id,
    observed,
    problems,
)
from surefind.serve.schemas import Item, SearchAnswer

router = APIRouter(prefix="/v1/items", tags=["items"])

SIDES = (64, 128, 256, 512)  # a thumbnail is drawn in one of few sizes, so that it can be kept
KEPT_SECONDS = 3600  # by a browser

Side = Annotated[int, Query(ge=SIDES[0], le=SIDES[-1], description="Of the longer side, at most.")]


@router.get("/{item}", responses=problems(404, 422, 503))
async def item(request: Request, item: str) -> Item:
    """What is known of an image."""
    hall, name = hall_of(request), known_id(item)
    index = hall.service.shelf.now.index
    return item_answer(await hall.service.in_thread(lambda: _row(index, name)))


@router.get("/{item}/neighbours", responses=problems(400, 404, 422, 503))
async def neighbours(
    request: Request,
    response: Response,
    item: str,
    k: K = 12,
    ranking: Ranking = None,
    where: Where = None,
) -> SearchAnswer:
    """The nearest other images, as if this one were asked and were not in the index."""
    hall, name, begun = hall_of(request), known_id(item), perf_counter()
    ask = Ask(k, ranking, tuple(where or ()))
    answered = await in_its_place(hall, request, lambda: hall.service.neighbours(name, ask))
    answered = observed(hall, answered, begun)
    response.headers["Server-Timing"] = server_timing(answered.seconds)
    return search_answer(answered)


@router.get(
    "/{item}/thumbnail",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}}, 304: {}, **problems(404, 422, 503)},
)
async def thumbnail(request: Request, item: str, side: Side = 256) -> Response:
    """A small copy of the picture, drawn anew."""
    hall, name = hall_of(request), known_id(item)
    side = max(one for one in SIDES if one <= side)
    content = await hall.service.in_thread(lambda: _draw(hall, name, side))
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": f"private, max-age={KEPT_SECONDS}"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="image/jpeg", headers=headers)


def _draw(hall: Hall, name: str, side: int) -> bytes:
    row = _row(hall.service.shelf.now.index, name)
    digest = row.digests[0]
    return hall.thumbnails.of(
        (name, digest),
        side,
        read=lambda: read_picture(
            name,
            row.metadata[0],
            digest,
            roots=hall.picture_roots,
            max_bytes=hall.settings.max_bytes,
        ),
    )


def _row(index: Index, name: str) -> Rows:
    rows = index.items([name])
    if not len(rows):
        raise Refused(404, "there is no such item", fix="it may have been removed: search again")
    return rows
