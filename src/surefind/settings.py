"""Frozen dataclasses from what a file says: every key known, every value of its type."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from surefind.errors import InvalidFile, SurefindError
from surefind.validation import nearest

T = TypeVar("T")


def parse(kind: type[T], values: Mapping[str, Any], *, where: str) -> T:
    """An instance of the dataclass `kind`; `where` names the file or option in errors."""
    _refuse_unknown_keys(kind, values, where, ())
    try:
        return TypeAdapter(kind).validate_python(dict(values))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if isinstance(cause := first.get("ctx", {}).get("error"), SurefindError):
            raise InvalidFile(f"{where}: {cause.problem}", fix=cause.fix) from error
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidFile(
            f"{where}: {key or 'values'}: {first['msg']}, got {first['input']!r}"
        ) from error


def _refuse_unknown_keys(
    kind: type, values: Mapping[str, Any], where: str, path: tuple[str, ...]
) -> None:
    known = {field.name for field in fields(kind)}
    hints = get_type_hints(kind)
    for key, value in values.items():
        if key not in known:
            near = nearest(key, known)
            hint = f"did you mean {near!r}?" if near else "known: " + ", ".join(sorted(known))
            name = ".".join((*path, key))
            raise InvalidFile(f"{where}: unknown key {name!r}", fix=hint)
        if is_dataclass(hints[key]):
            if not isinstance(value, Mapping):
                raise InvalidFile(
                    f"{where}: {key} is a table, got {value!r}",
                    fix=f"write its keys under [{'.'.join((*path, key))}]",
                )
            _refuse_unknown_keys(hints[key], value, where, (*path, key))
