"""Checks of arguments: numbers, integers, choices; arrays and lists to tensors."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from math import isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING

from surefind.errors import InvalidArgument

if TYPE_CHECKING:  # loaded when they are used: commands import this module
    from torch import Tensor


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
    argument: str, value: object, expected: str = "a finite number", fits: Callable[[float], bool] = isfinite
) -> None:
    """Raise InvalidArgument unless `value` is a finite number for which `fits` holds."""
    if not isinstance(value, Real) or not isfinite(value) or not fits(float(value)):
        raise InvalidArgument(argument, expected=expected, got=repr(value))


def check_share(argument: str, value: object) -> None:
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
        expected = f"{count} values, one per row"
        raise InvalidArgument(argument, expected=expected, got=f"shape {tuple(tensor.shape)}")
    if tensor.is_floating_point() or tensor.is_complex():
        expected = "integers or texts" if texts else "integers"
        got = str(tensor.dtype).removeprefix("torch.")
        raise InvalidArgument(argument, expected=expected, got=got)
    return tensor
