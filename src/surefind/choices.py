"""Names out of a closed set; a wrong one is answered with the nearest."""

from collections.abc import Iterable
from difflib import get_close_matches

from surefind.errors import InvalidArgument


def nearest(value: object, choices: Iterable[str]) -> str | None:
    """The choice that was probably meant."""
    near = get_close_matches(str(value), list(choices), n=1, cutoff=0.4)
    return near[0] if near else None


def check_choice(argument: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse what is not one of the choices."""
    if value not in choices:
        near = nearest(value, choices)
        raise InvalidArgument(
            argument,
            expected="one of " + ", ".join(choices),
            got=repr(value),
            fix=f"did you mean {near!r}?" if near else f"use {choices[0]!r}",
        )
