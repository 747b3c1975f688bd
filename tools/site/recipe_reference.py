"""A hook of MkDocs: every key of a recipe, with its values and default, from the source itself."""

import inspect
import re
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

PLACE = "<!-- recipe keys -->"
_FIELD = re.compile(r" {4}(\w+): (.+?) = (.+?)(?:  # (.*))?")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Instead of the comment."""
    return markdown.replace(PLACE, recipe_reference()) if PLACE in markdown else markdown


def recipe_reference() -> str:
    from surefind.training.recipe import Recipe

    hints = get_type_hints(Recipe)
    lines = []
    for field in fields(Recipe):
        kind = hints[field.name]
        if is_dataclass(kind):
            about = inspect.getdoc(kind) or ""
            lines += [f"## [{field.name}] {{ #{field.name} }}", "", about, "", *_table(kind), ""]
    return "\n".join(lines)


def _table(kind: type) -> list[str]:
    rows = ["| key | values | default | what |", "|---|---|---|---|"]
    for line in inspect.getsource(kind).splitlines():
        if found := _FIELD.fullmatch(line):
            name, values, default, comment = found.groups()
            told = (comment or "").replace("|", r"\|")
            rows.append(f"| `{name}` | {_values(values)} | `{default}` | {told} |")
    return rows


def _values(annotation: str) -> str:
    """Choices as they are written in TOML; else the kind."""
    choices = re.fullmatch(r"Literal\[(.*)\]", annotation)
    if choices:
        return ", ".join(f"`{choice.strip()}`" for choice in choices[1].split(","))
    return annotation.replace("|", "or").replace("None", "nothing")
