"""Checks of arguments: numbers, integers, choices."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from math import isfinite
from numbers import Integral, Real

from surefind.errors import InvalidArgument


def nearest(value: object, choices: Iterable[str]) -> str | None:
    """Return the choice that was probably meant."""
    near = get_close_matches(str(value), list(choices), n=1, cutoff=0.4)
    return near[0] if near else None


def check_choice(argument: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise InvalidArgument unless `value` is one of the choices."""
    if value not in choices:
        near = nearest(value, choices)
        raise InvalidArgument(
            argument,
            expected="one of " + ", ".join(choices),
            got=repr(value),
            fix=f"did you mean {near!r}?" if near else f"use {choices[0]!r}",
        )


def check_number(
    argument: str,
    value: object,
    expected: str = "a finite number",
    fits: Callable[[float], bool] = isfinite,
) -> None:
    """Raise InvalidArgument unless `value` is a finite number for which `fits` holds."""
    if not isinstance(value, Real) or not isfinite(value) or not fits(float(value)):
        raise InvalidArgument(argument, expected=expected, got=repr(value))


def check_share(argument: str, value: object) -> None:
    check_number(argument, value, "a share between 0 and 1", lambda share: 0 < share < 1)


def check_whole(argument: str, value: object, *, smallest: int = 1) -> None:
    """Raise InvalidArgument unless `value` is an integer of at least `smallest`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < smallest:
        raise InvalidArgument(
            argument, expected=f"a whole number of at least {smallest}", got=repr(value)
        )
