"""The page gives the token once, and is known by a cookie from then on."""

from fastapi import APIRouter, Request, Response

from surefind.serve.guards.refused import Refused
from surefind.serve.guards.tokens import is_right, session_cookie
from surefind.serve.hall import hall_of
from surefind.serve.routes.common import json_body, problems, read_json
from surefind.serve.schemas import TokenGiven

router = APIRouter(prefix="/v1", tags=["session"])


TOKEN_BYTES = 64 * 2**10  # of its JSON


@router.post(
    "/session",
    status_code=204,
    response_class=Response,
    responses=problems(400, 408, 413, 422, 503),
    openapi_extra=json_body(TokenGiven),
)
async def session(request: Request) -> Response:
    """A cookie for who gives the token that the service was started with."""
    hall = hall_of(request)
    given = await read_json(hall, request, TokenGiven, most=TOKEN_BYTES)
    token = hall.settings.token
    if token is None:
        return Response(status_code=204)  # there is nothing to prove
    if not is_right(token, given.token):
        raise Refused(401, "that is not the token", fix="ask whoever started the service")
    secure = request.url.scheme == "https"
    cookie = session_cookie(token, secure=secure)
    return Response(status_code=204, headers={"Set-Cookie": cookie})
