"""The page and its files: read once, known by name, nothing else of the disk."""

import hashlib
from importlib.resources import files
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from surefind.serve.guards.refused import Refused

router = APIRouter(include_in_schema=False)

KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


class _File(NamedTuple):
    content: bytes
    kind: str
    tag: str


def _read_all() -> dict[str, _File]:
    found = {}
    for file in files("surefind.serve").joinpath("page").iterdir():
        suffix = file.name[file.name.rfind(".") :]
        if suffix in KINDS:
            content = file.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[file.name] = _File(content, KINDS[suffix], tag)
    return found


_FILES = _read_all()


@router.get("/")
async def page(request: Request) -> Response:
    return _sent(request, "index.html")


@router.get("/favicon.ico")
async def icon(request: Request) -> Response:
    return _sent(request, "icon.svg")


@router.get("/page/{name}")
async def file(request: Request, name: str) -> Response:
    return _sent(request, name)


def _sent(request: Request, name: str) -> Response:
    if name not in _FILES:
        raise Refused(404, "there is no such file", fix="open /")
    content, kind, tag = _FILES[name]
    headers = {"ETag": tag, "Cache-Control": "no-cache"}  # asked for again, seldom sent again
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)
