"""Checks of arguments, arrays and lists as tensors, and dataclasses from the values of a file."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from math import isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from surefind.errors import InvalidArgument, InvalidFile, SurefindError

if TYPE_CHECKING:  # loaded when they are used: commands import this module
    from pydantic import TypeAdapter
    from torch import Tensor

T = TypeVar("T")


def nearest(value: object, choices: Iterable[str]) -> str | None:
    """Return the choice that was probably meant."""
    near = get_close_matches(str(value), list(choices), n=1, cutoff=0.4)
    return near[0] if near else None


def check_choice(argument: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise InvalidArgument unless `value` is one of the choices."""
    if value not in choices:
        fix = f"did you mean {near!r}?" if (near := nearest(value, choices)) else f"use {choices[0]!r}"
        raise InvalidArgument(argument, expected="one of " + ", ".join(choices), got=repr(value), fix=fix)


def check_number(
    argument: str, value: object, expected: str = "a finite number", fits: Callable[[float], bool] = isfinite
) -> None:
    """Raise InvalidArgument unless `value` is a finite number for which `fits` holds."""
    if not isinstance(value, Real) or not isfinite(value) or not fits(float(value)):
        raise InvalidArgument(argument, expected=expected, got=repr(value))


def check_share(argument: str, value: object, *, closed: bool = False) -> None:
    """Raise InvalidArgument unless `value` is in (0, 1), or in [0, 1] if `closed`."""
    if closed:
        check_number(argument, value, "a number from 0 to 1", lambda share: 0 <= share <= 1)
    else:
        check_number(argument, value, "a share between 0 and 1", lambda share: 0 < share < 1)


def check_whole(argument: str, value: object, *, smallest: int = 1) -> None:
    """Raise InvalidArgument unless `value` is an integer of at least `smallest`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < smallest:
        raise InvalidArgument(argument, expected=f"a whole number of at least {smallest}", got=repr(value))


def as_tensor(argument: str, values: object, *, texts: bool = False) -> "Tensor":
    """Return an array, a list or a column of numbers as a tensor; a tensor as it is.

    With `texts`, different texts become different integers.
    """
    import numpy as np
    import torch

    if isinstance(values, torch.Tensor):
        return values
    try:
        array = np.asarray(values)
        if texts and array.dtype.kind in "OSUT":
            array = np.unique(array.astype(str), return_inverse=True)[1].reshape(array.shape)
        return torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))
    except (TypeError, ValueError) as error:  # text, objects, or rows of different lengths
        raise InvalidArgument(
            argument, expected="an array, a list or a tensor of numbers", got=type(values).__name__
        ) from error


def as_integers(argument: str, values: object, count: int, *, texts: bool = False) -> "Tensor":
    """Return one integer for each of `count` rows; of `texts` too, such as labels."""
    tensor = as_tensor(argument, values, texts=texts)
    if tensor.shape != (count,):
        raise InvalidArgument(argument, expected=f"{count} values, one per row", got=f"shape {tuple(tensor.shape)}")
    if tensor.is_floating_point() or tensor.is_complex():
        expected = "integers or texts" if texts else "integers"
        raise InvalidArgument(argument, expected=expected, got=str(tensor.dtype).removeprefix("torch."))
    return tensor


def parse(kind: type[T], values: Mapping[str, Any], *, where: str) -> T:
    """Parse values to the dataclass `kind`; `where` names the file or option in errors."""
    from pydantic import TypeAdapter, ValidationError

    _refuse_unknown_keys(kind, values, where, "")
    try:
        return TypeAdapter(kind).validate_python(dict(values))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if isinstance(cause := first.get("ctx", {}).get("error"), SurefindError):
            raise InvalidFile(f"{where}: {cause.problem}", fix=cause.fix) from error
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidFile(f"{where}: {key or 'values'}: {first['msg']}, got {first['input']!r}") from error


def _refuse_unknown_keys(kind: type, values: Mapping[str, Any], where: str, prefix: str) -> None:
    known, hints = {field.name for field in fields(kind)}, get_type_hints(kind)
    for key, value in values.items():
        if key not in known:
            near = nearest(key, known)
            hint = f"did you mean {near!r}?" if near else "known: " + ", ".join(sorted(known))
            raise InvalidFile(f"{where}: unknown key {prefix + key!r}", fix=hint)
        if is_dataclass(hints[key]):
            if not isinstance(value, Mapping):
                fix = f"write its keys under [{prefix + key}]"
                raise InvalidFile(f"{where}: {key} is a table, got {value!r}", fix=fix)
            _refuse_unknown_keys(hints[key], value, where, f"{prefix}{key}.")


def make(kind: type[T], values: Mapping[str, Any], *, argument: str) -> T:
    """Make a dataclass that checks its values; raise InvalidArgument for a name that is not a field."""
    for name in values:
        check_choice(argument, name, tuple(field.name for field in fields(kind)))  # type: ignore[arg-type]
    return kind(**values)


def check_fields(settings: Any) -> None:
    """Raise InvalidArgument if a field does not fit its type, in pydantic's strict mode.

    Integers become floats where the type is float. A string in the metadata of `Annotated`
    replaces pydantic's description of what is expected.
    """
    from pydantic import ValidationError

    kind: Any = type(settings)
    for name, (adapter, expected) in _adapters(kind).items():
        value = getattr(settings, name)
        try:
            object.__setattr__(settings, name, adapter.validate_python(value, strict=True))
        except ValidationError as error:
            message = error.errors(include_url=False)[0]["msg"].removeprefix("Input should be ")
            raise InvalidArgument(name, expected=expected or message, got=repr(value)) from None


@cache
def _adapters(kind: Any) -> "dict[str, tuple[TypeAdapter[Any], str]]":
    """Validator and description of what is expected, by field."""
    from pydantic import TypeAdapter

    return {
        name: (TypeAdapter(hint), "".join(text for text in getattr(hint, "__metadata__", ()) if isinstance(text, str)))
        for name, hint in get_type_hints(kind, include_extras=True).items()
    }
