"""Images of the index: metadata, neighbours, thumbnails."""

from functools import partial
from time import perf_counter
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from surefind.engines.base import Rows
from surefind.search.image_files import read_picture
from surefind.search.index import Index
from surefind.serve.errors import Refused
from surefind.serve.gallery import id_of
from surefind.serve.responses import Item, SearchAnswer, item_answer
from surefind.serve.routes.search import K, Ranking, Where, problems, run_admitted, sent, sent_file
from surefind.serve.service import SearchOptions
from surefind.serve.state import state_of

router = APIRouter(prefix="/v1/items", tags=["items"])

SIDES = (64, 128, 256, 512)  # a thumbnail is drawn in one of few sizes, so that it can be kept

Side = Annotated[int, Query(ge=SIDES[0], le=SIDES[-1], description="Of the longer side, at most.")]


@router.get("/{item}", responses=problems(404, 422, 503))
async def item(request: Request, item: str) -> Item:
    """What is known of an image."""
    service, name = state_of(request).service, _known_id(item)
    index = service.live.current.index
    return item_answer(await service.in_thread(lambda: _row(index, name)), index.space)


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
    state, name, begun = state_of(request), _known_id(item), perf_counter()
    options = SearchOptions(k, ranking, tuple(where or ()))
    answered = await run_admitted(request, lambda: state.service.neighbours(name, options))
    return sent(state, answered, response, begun)


@router.get(
    "/{item}/thumbnail",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}}, 304: {}, **problems(404, 422, 503)},
)
async def thumbnail(request: Request, item: str, side: Side = 256) -> Response:
    """A small copy of the picture, drawn anew."""
    state, name = state_of(request), _known_id(item)
    side = max(one for one in SIDES if one <= side)

    def draw() -> bytes:
        row = _row(state.service.live.current.index, name)
        digest, metadata = row.digests[0], row.metadata[0]
        roots, most = state.picture_roots, state.settings.max_bytes
        read = partial(read_picture, name, metadata, digest, roots=roots, max_bytes=most)
        return state.thumbnails.of((name, digest), side, read=read)

    content = await state.service.in_thread(draw)
    return sent_file(request, content, kind="image/jpeg", cache="private, max-age=3600")


def _known_id(item: str) -> str:
    """The id behind the name in a URL."""
    name = id_of(item)
    if name is None:
        raise Refused(404, "there is no such item", fix="use the links of a search's answer")
    return name


def _row(index: Index, name: str) -> Rows:
    rows = index.items([name])
    if not len(rows):
        raise Refused(404, "there is no such item", fix="it may have been removed: search again")
    return rows
