"""Is it alive, is it ready, and what has it done?"""

import logging

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from surefind.engines.engine import EngineError
from surefind.serve.hall import hall_of
from surefind.serve.routes.common import problems
from surefind.serve.schemas import HealthAnswer, ReadyAnswer

router = APIRouter(tags=["health"])
logger = logging.getLogger("surefind.serve")


@router.get("/healthz")
async def healthz() -> HealthAnswer:
    """The process answers."""
    return HealthAnswer(ok=True)


@router.get("/readyz", responses={503: {"model": ReadyAnswer}})
async def readyz(request: Request) -> Response:
    """Questions can be answered; says so if it is not from the newest version."""
    service = hall_of(request).service
    shown = service.shelf.now
    warnings = shown.warnings
    try:
        images = await service.in_thread(lambda: len(shown.index))
    except EngineError as error:
        logger.warning("not ready: %s", error.problem)
        images, warnings = None, [*warnings, shown.public(error)]
    answer = ReadyAnswer(
        ready=images is not None,
        version=shown.version,
        images=images,
        warnings=warnings,
        reload=shown.trouble,
    )
    return JSONResponse(answer.model_dump(), status_code=200 if answer.ready else 503)


@router.get("/metrics", response_class=Response, responses=problems())
async def metrics(request: Request) -> Response:
    """For Prometheus."""
    hall = hall_of(request)
    meters, service = hall.meters, hall.service
    meters.places.set(hall.admission.taken)
    meters.queue.labels("search").set(len(service.searches))
    if service.encoding is not None:
        meters.queue.labels("encode").set(len(service.encoding.batches))
    meters.images.set(service.shelf.now.images)
    meters.reloads.set(service.shelf.reloads)
    return Response(meters.page(), media_type=CONTENT_TYPE_LATEST)
