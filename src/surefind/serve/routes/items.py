"""Indexed images: metadata, neighbours, thumbnails."""

from time import perf_counter
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from surefind.serve.errors import Refused
from surefind.serve.gallery import id_of
from surefind.serve.responses import Item, SearchAnswer, item_answer
from surefind.serve.routes.search import (
    K,
    Ranking,
    Where,
    file_response,
    finish,
    problems,
    run_admitted,
)
from surefind.serve.service import SearchOptions
from surefind.serve.state import state_of

router = APIRouter(prefix="/v1/items", tags=["items"])

SIDES = (64, 128, 256, 512)  # few sizes, for the cache

Side = Annotated[int, Query(ge=SIDES[0], le=SIDES[-1], description="Maximum of the longer side.")]


@router.get("/{item}", responses=problems(404, 422, 503))
async def item(request: Request, item: str) -> Item:
    """Return the metadata of an image."""
    state, name = state_of(request), _known_id(item)
    row = await state.service.in_thread(lambda: state.row(name))
    return item_answer(row, state.service.live.current.index.space)


@router.get("/{item}/neighbours", responses=problems(400, 404, 422, 503))
async def neighbours(
    request: Request,
    response: Response,
    item: str,
    k: K = 12,
    ranking: Ranking = None,
    where: Where = None,
) -> SearchAnswer:
    """Search with an indexed image, which is not its own hit."""
    state, name, begun = state_of(request), _known_id(item), perf_counter()
    options = SearchOptions(k, ranking, tuple(where or ()))
    found = await run_admitted(request, lambda: state.service.neighbours(name, options))
    return finish(state, found, response, begun)


@router.get(
    "/{item}/thumbnail",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}}, 304: {}, **problems(404, 422, 503)},
)
async def thumbnail(request: Request, item: str, side: Side = 256) -> Response:
    """Return a thumbnail."""
    state, name = state_of(request), _known_id(item)
    side = max(one for one in SIDES if one <= side)

    draw = lambda: state.thumbnail(name, state.row(name).digests[0], side)
    content = await state.service.in_thread(draw)
    return file_response(request, content, kind="image/jpeg", cache="private, max-age=3600")


def _known_id(item: str) -> str:
    name = id_of(item)
    if name is None:
        raise Refused(404, "no such item")
    return name
