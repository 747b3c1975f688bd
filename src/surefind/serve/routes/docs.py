"""The API for people to read: made from its OpenAPI document, without scripts."""

from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request, Response
from jinja2 import Environment

router = APIRouter(include_in_schema=False)

EXAMPLES = {  # how to ask, after curl and before the address
    "/v1/search": "--data-binary @photo.jpg",
    "/v1/embed": "--data-binary @photo.jpg",
    "/v1/search/vector": '-H "Content-Type: application/json" -d \'{"vector": [...]}\'',
    "/v1/session": '-H "Content-Type: application/json" -d \'{"token": "..."}\'',
}

_TEMPLATE = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
    files("surefind.serve").joinpath("api.html").read_text(encoding="utf-8")
)


@router.get("/docs")
async def docs(request: Request) -> Response:
    document = request.app.openapi()
    html = _TEMPLATE.render(
        info=document["info"],
        routes=_routes(document),
        schemas=document["components"]["schemas"],
        type_of=_type_of,
        base=str(request.base_url).rstrip("/"),
        examples=EXAMPLES,
    )
    return Response(html, media_type="text/html")


def _routes(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"path": path, "method": method.upper(), **operation}
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def _type_of(schema: dict[str, Any]) -> str:
    """In a few words."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_type_of(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_type_of(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))
