"""Parse and check dataclasses by their annotated types; unknown keys are refused."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.validation import check_choice, nearest

T = TypeVar("T")


def parse(kind: type[T], values: Mapping[str, Any], *, where: str) -> T:
    """Parse values to the dataclass `kind`; `where` names the file or option in errors."""
    _refuse_unknown_keys(kind, values, where, ())
    try:
        return TypeAdapter(kind).validate_python(dict(values))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if isinstance(cause := first.get("ctx", {}).get("error"), SurefindError):
            raise InvalidFile(f"{where}: {cause.problem}", fix=cause.fix) from error
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidFile(f"{where}: {key or 'values'}: {first['msg']}, got {first['input']!r}") from error


def _refuse_unknown_keys(kind: type, values: Mapping[str, Any], where: str, path: tuple[str, ...]) -> None:
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
                    f"{where}: {key} is a table, got {value!r}", fix=f"write its keys under [{'.'.join((*path, key))}]"
                )
            _refuse_unknown_keys(hints[key], value, where, (*path, key))


def check_names(kind: type, values: Mapping[str, Any], *, argument: str) -> None:
    """Raise InvalidArgument for a name that is not a field of `kind`."""
    for name in values:
        check_choice(argument, name, tuple(field.name for field in fields(kind)))


def check_fields(settings: Any) -> None:
    """Raise InvalidArgument if a field does not fit its type, in pydantic's strict mode.

    Integers become floats where the type is float. A string in the metadata of `Annotated`
    replaces pydantic's description of what is expected.
    """
    kind: Any = type(settings)
    for name, (adapter, expected) in _adapters(kind).items():
        value = getattr(settings, name)
        try:
            object.__setattr__(settings, name, adapter.validate_python(value, strict=True))
        except ValidationError as error:
            message = error.errors(include_url=False)[0]["msg"].removeprefix("Input should be ")
            raise InvalidArgument(name, expected=expected or message, got=repr(value)) from None


@cache
def _adapters(kind: Any) -> dict[str, tuple[TypeAdapter[Any], str]]:
    """Validator and description of what is expected, by field."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        texts = [text for text in getattr(hint, "__metadata__", ()) if isinstance(text, str)]
        found[name] = TypeAdapter(hint), "".join(texts)
    return found
