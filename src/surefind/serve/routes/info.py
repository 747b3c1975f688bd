"""Index information, samples, health and metrics."""

import logging
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from surefind.engines.engine import EngineError
from surefind.serve.errors import RETRY_AFTER, Refused
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


@router.get("/v1/info", responses=problems(503), tags=["index"])
async def info(request: Request) -> InfoAnswer:
    """Return the index, its calibration and limits."""
    state = state_of(request)
    return await state.service.in_thread(lambda: info_answer(state))


@router.get("/v1/uncertainty", responses=problems(503), tags=["index"])
async def uncertainty(request: Request) -> UncertaintyAnswer:
    """Return the histogram of the variances of the indexed images."""
    state = state_of(request)
    sample, _ = await state.service.in_thread(state.overview)
    return variance_histogram(sample.every_var, sample.of)


@router.get(
    "/v1/map",
    response_model=MapAnswer,
    responses={202: {"model": MapPending}, **problems(503)},
    tags=["index"],
)
async def gallery_map(request: Request) -> Response:
    """Return a 2-D projection of the indexed images; 202 while it is computed."""
    state = state_of(request)
    _, drawn = await state.service.in_thread(state.overview)
    answer = drawn.answer()
    if answer is not None:
        return JSONResponse(answer)
    pending = {"ready": False, "sentence": drawn.pending}
    return JSONResponse(pending, status_code=202, headers={"Retry-After": str(RETRY_AFTER)})


@router.get(
    "/v1/samples/{number}",
    response_class=Response,
    responses={200: {"content": {"image/png": {}, "image/jpeg": {}}}, **problems(404, 422)},
    tags=["index"],
)
async def sample(request: Request, number: Annotated[int, Path(ge=0, lt=1000)]) -> Response:
    """Return an example query."""
    samples = state_of(request).samples
    if samples is None or number >= len(samples):
        raise Refused(404, "no such sample", fix="see /v1/info")
    return Response(samples[number].content, media_type=samples[number].media_type)


@router.get("/healthz", tags=["health"])
async def healthz() -> dict[Literal["ok"], bool]:
    """Return ok: the process is alive."""
    return {"ok": True}


@router.get("/readyz", responses={503: {"model": ReadyAnswer}}, tags=["health"])
async def readyz(request: Request, response: Response) -> ReadyAnswer:
    """Return whether searches work, and from which version of the index."""
    service = state_of(request).service
    served = service.live.current
    warnings = served.warnings
    try:
        images = await service.in_thread(lambda: len(served.index))
    except EngineError as error:
        logger.warning("not ready: %s", error.problem)
        images, warnings = None, [*warnings, served.public_message(error)]
        response.status_code = 503
    return ReadyAnswer(
        ready=images is not None,
        version=served.version,
        images=images,
        warnings=warnings,
        reload=served.reload_error,
    )


@router.get("/metrics", response_class=Response, responses=problems(), tags=["health"])
async def metrics(request: Request) -> Response:
    """Return Prometheus metrics."""
    state = state_of(request)
    counted, service = state.metrics, state.service
    counted.in_flight.set(state.admission.in_flight)
    counted.queue.labels("search").set(len(service.searches))
    if service.encoder is not None:
        counted.queue.labels("encode").set(len(service.encoder.batches))
    counted.images.set(service.live.current.images)
    counted.reloads.set(service.live.reloads)
    return Response(generate_latest(counted.registry), media_type=CONTENT_TYPE_LATEST)
