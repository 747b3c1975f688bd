"""What is served, and what the page shows of the whole gallery."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse

from surefind.serve.about import info_answer
from surefind.serve.gallery.samples import gallery_samples
from surefind.serve.guards.refused import Refused
from surefind.serve.hall import Hall, hall_of
from surefind.serve.routes.common import problems
from surefind.serve.schemas import InfoAnswer, MapAnswer, MapPending, UncertaintyAnswer

router = APIRouter(tags=["about"])

PAUSE = 2  # seconds between looks at a map that is being drawn


@router.get("/v1/info", responses=problems(503))
async def info(request: Request) -> InfoAnswer:
    """The index, its calibration, and what may be asked."""
    hall = hall_of(request)
    return await hall.service.in_thread(lambda: _info(hall))


@router.get("/v1/uncertainty", responses=problems(503))
async def uncertainty(request: Request) -> UncertaintyAnswer:
    """How vague the images of the gallery are."""
    hall = hall_of(request)
    return await hall.service.in_thread(lambda: hall.views.of(hall.service.shelf.now).uncertainty)


@router.get(
    "/v1/map", response_model=MapAnswer, responses={202: {"model": MapPending}, **problems(503)}
)
async def gallery_map(request: Request) -> Response:
    """The gallery on a plane; 202 while it is being projected."""
    hall = hall_of(request)
    view = await hall.service.in_thread(lambda: hall.views.of(hall.service.shelf.now))
    answer = view.map.answer()
    if answer is not None:
        return JSONResponse(answer)
    pending = {"ready": False, "sentence": view.map.sentence}
    return JSONResponse(pending, status_code=202, headers={"Retry-After": str(PAUSE)})


@router.get(
    "/v1/samples/{number}",
    response_class=Response,
    responses={200: {"content": {"image/png": {}, "image/jpeg": {}}}, **problems(404, 422)},
)
async def sample(request: Request, number: Annotated[int, Path(ge=0, lt=1000)]) -> Response:
    """A picture to try."""
    samples = hall_of(request).samples
    if samples is None or number >= len(samples.pictures):
        raise Refused(404, "there is no such sample", fix="/v1/info lists them")
    picture = samples.pictures[number]
    return Response(picture.content, media_type=picture.media_type)


@router.get("/report/", response_class=Response, include_in_schema=False)
async def report(request: Request) -> Response:
    found = hall_of(request).report
    if found is None:
        raise Refused(
            404,
            "there is no report",
            fix="surefind evaluate MODEL DATA -o REPORT, then surefind serve INDEX --report REPORT",
        )
    return Response(found.html, media_type="text/html")


def _info(hall: Hall) -> InfoAnswer:
    shown = hall.service.shelf.now
    view = hall.views.of(shown)
    samples = gallery_samples(view.sketch) if hall.samples is None else hall.samples.as_json()
    return info_answer(
        shown,
        max_bytes=hall.settings.max_bytes,
        has_variance=view.has_variance,
        labelled=view.sketch.labelled,
        pictures=bool(hall.picture_roots),
        samples=samples,
        report=hall.report is not None,
    )
