"""The index as a whole, samples, health and metrics."""

import logging
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from surefind.engines.base import EngineError
from surefind.serve.errors import Refused
from surefind.serve.responses import (
    InfoAnswer,
    MapAnswer,
    MapPending,
    ReadyAnswer,
    UncertaintyAnswer,
    info_answer,
    variance_histogram,
)
from surefind.serve.routes.search import problems
from surefind.serve.state import state_of

router = APIRouter()
logger = logging.getLogger("surefind.serve")

PAUSE = 2  # seconds between looks at a map that is being drawn


@router.get("/v1/info", responses=problems(503), tags=["about"])
async def info(request: Request) -> InfoAnswer:
    """The index, its calibration, and what may be asked."""
    state = state_of(request)
    return await state.service.in_thread(lambda: info_answer(state))


@router.get("/v1/uncertainty", responses=problems(503), tags=["about"])
async def uncertainty(request: Request) -> UncertaintyAnswer:
    """Histogram of the variances of the gallery's images."""
    state = state_of(request)
    sample, _ = await state.service.in_thread(state.overview)
    return variance_histogram(sample.every_var, sample.of)


@router.get(
    "/v1/map",
    response_model=MapAnswer,
    responses={202: {"model": MapPending}, **problems(503)},
    tags=["about"],
)
async def gallery_map(request: Request) -> Response:
    """The gallery on a plane; 202 while it is being projected."""
    state = state_of(request)
    _, drawn = await state.service.in_thread(state.overview)
    answer = drawn.answer()
    if answer is not None:
        return JSONResponse(answer)
    pending = {"ready": False, "sentence": drawn.pending}
    return JSONResponse(pending, status_code=202, headers={"Retry-After": str(PAUSE)})


@router.get(
    "/v1/samples/{number}",
    response_class=Response,
    responses={200: {"content": {"image/png": {}, "image/jpeg": {}}}, **problems(404, 422)},
    tags=["about"],
)
async def sample(request: Request, number: Annotated[int, Path(ge=0, lt=1000)]) -> Response:
    """A picture to try."""
    samples = state_of(request).samples
    if samples is None or number >= len(samples):
        raise Refused(404, "there is no such sample", fix="/v1/info lists them")
    return Response(samples[number].content, media_type=samples[number].media_type)


@router.get("/healthz", tags=["health"])
async def healthz() -> dict[Literal["ok"], bool]:
    """The process answers."""
    return {"ok": True}


@router.get("/readyz", responses={503: {"model": ReadyAnswer}}, tags=["health"])
async def readyz(request: Request, response: Response) -> ReadyAnswer:
    """Questions can be answered; says so if it is not from the newest version."""
    service = state_of(request).service
    served = service.live.current
    warnings = served.warnings
    try:
        images = await service.in_thread(lambda: len(served.index))
    except EngineError as error:
        logger.warning("not ready: %s", error.problem)
        images, warnings = None, [*warnings, served.public(error)]
        response.status_code = 503
    return ReadyAnswer(
        ready=images is not None,
        version=served.version,
        images=images,
        warnings=warnings,
        reload=served.trouble,
    )


@router.get("/metrics", response_class=Response, responses=problems(), tags=["health"])
async def metrics(request: Request) -> Response:
    """For Prometheus."""
    state = state_of(request)
    counted, service = state.metrics, state.service
    counted.in_flight.set(state.admission.taken)
    counted.queue.labels("search").set(len(service.searches))
    if service.encoding is not None:
        counted.queue.labels("encode").set(len(service.encoding.batches))
    counted.images.set(service.live.current.images)
    counted.reloads.set(service.live.reloads)
    return Response(generate_latest(counted.registry), media_type=CONTENT_TYPE_LATEST)
