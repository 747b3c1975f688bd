"""The page and its files, the report, and signing in."""

from importlib.resources import files

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from surefind.serve.errors import Refused
from surefind.serve.routes.search import file_response, json_body, problems, read_json
from surefind.serve.security import session_cookie, token_matches
from surefind.serve.state import state_of

router = APIRouter()

TOKEN_BYTES = 64 * 2**10  # of JSON
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_PAGES = {"/": "index.html", "/docs": "docs.html", "/favicon.ico": "icon.svg"}
# Read once; no other file can be requested.
_FILES = {
    file.name: (file.read_bytes(), KINDS[file.name.rpartition(".")[2]])
    for file in files("surefind.serve").joinpath("page").iterdir()
    if file.name.rpartition(".")[2] in KINDS
}


class TokenBody(BaseModel):
    token: str = Field(max_length=4096)


@router.get("/", include_in_schema=False)
@router.get("/docs", include_in_schema=False)
@router.get("/favicon.ico", include_in_schema=False)
@router.get("/page/{name}", include_in_schema=False)
async def page(request: Request) -> Response:
    name = request.path_params.get("name") or _PAGES[request.url.path]
    if name not in _FILES:
        raise Refused(404, "no such file")
    content, kind = _FILES[name]
    return file_response(request, content, kind=kind, cache="no-cache")


@router.get("/report/", response_class=Response, include_in_schema=False)
async def report(request: Request) -> Response:
    html = state_of(request).report
    if html is None:
        raise Refused(404, "no report", fix="surefind serve INDEX --report REPORT")
    return Response(html, media_type="text/html")


@router.post(
    "/v1/session",
    status_code=204,
    response_class=Response,
    responses=problems(400, 408, 413, 422, 503),
    openapi_extra=json_body(TokenBody),
    tags=["session"],
)
async def session(request: Request) -> Response:
    """Exchange the token for a session cookie."""
    token = state_of(request).settings.token
    given = await read_json(request, TokenBody, most=TOKEN_BYTES)
    if token is None:
        return Response(status_code=204)  # no token is required
    if not token_matches(token, given.token):
        raise Refused(401, "wrong token")
    cookie = session_cookie(token, secure=request.url.scheme == "https")
    return Response(status_code=204, headers={"Set-Cookie": cookie})
