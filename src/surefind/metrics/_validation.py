"""Checks of the arguments of metrics, and sorted order with ties."""

from typing import NamedTuple

import torch
from torch import Tensor

from surefind.errors import InvalidArgument
from surefind.validation import as_tensor

EXACT = 2**23  # float32 holds all halves below it, so ranks made of counts have no rounding


def as_numbers(name: str, values: object, length: int | None = None) -> Tensor:
    """One number per query in float64, (Q,); infinite is a number, nan is not."""
    tensor = check_tensor(name, values, "(Q,)")
    if length is not None and len(tensor) != length:
        raise InvalidArgument(name, expected=f"{length} values, one per query", got=str(len(tensor)))
    tensor = tensor.detach().double()
    if missing := int(tensor.isnan().sum()):
        raise InvalidArgument(name, expected="numbers", got=f"{missing} nan")
    return tensor


def as_finite(name: str, values: object, length: int | None = None) -> Tensor:
    """One finite number per query in float64, (Q,)."""
    tensor = as_numbers(name, values, length)
    if infinite := int(tensor.isinf().sum()):
        raise InvalidArgument(name, expected="finite numbers", got=f"{infinite} infinite")
    return tensor


def as_shares(name: str, values: object, length: int | None = None) -> Tensor:
    """One number in [0, 1] per query in float64, (Q,)."""
    tensor = as_numbers(name, values, length)
    low, high = (float(end) for end in tensor.aminmax())
    if low < 0 or high > 1:
        raise InvalidArgument(
            name,
            expected="numbers from 0 to 1",
            got=f"values from {low:g} to {high:g}",
            fix="a confidence is a probability: calibrate it on held-out queries first",
        )
    return tensor


def as_flags(name: str, values: object, length: int) -> Tensor:
    """One bool per query, (Q,)."""
    tensor = check_tensor(name, values, "(Q,)")
    if tensor.dtype != torch.bool or len(tensor) != length:
        raise InvalidArgument(
            name,
            expected=f"{length} values of bool, one per query",
            got=f"{len(tensor)} of {str(tensor.dtype).removeprefix('torch.')}",
        )
    return tensor


def as_rows(weights: object, length: int) -> Tensor:
    """How often each query counts, one row per resample, (B, Q); None is once each, (1, Q)."""
    if weights is None:
        return torch.ones(1, length, dtype=torch.float64)
    tensor = check_tensor("weights", weights, "(B, Q)")
    if tensor.shape[1] != length:
        raise InvalidArgument("weights", expected=f"{length} columns, one per query", got=str(tensor.shape[1]))
    wide = tensor if tensor.is_floating_point() else tensor.double()
    total = wide.sum(1)
    if not (wide.min() >= 0 and torch.equal(total, total.round())):
        raise InvalidArgument(
            "weights",
            expected="whole numbers, 0 or more: how often each query is drawn",
            got=f"values from {float(wide.min()):g}, sums such as {float(total[0]):g}",
            fix="draw them with resample_counts(len(queries), resamples, seed=0)",
        )
    return wide if total.max() < EXACT else wide.double()


def as_result(per_row: Tensor, weights: object) -> float | Tensor:
    """A float when no weights were given, otherwise one float64 per resample, (B,)."""
    return float(per_row[0]) if weights is None else per_row.double()


def check_tensor(name: str, value: object, shape: str) -> Tensor:
    """A tensor with as many dimensions as `shape` has letters, and something in it."""
    tensor = as_tensor(name, value)
    ndim = shape.strip("(,)").count(",") + 1
    if tensor.ndim != ndim or tensor.numel() == 0:
        raise InvalidArgument(name, expected=f"shape {shape}, not empty", got=f"shape {tuple(tensor.shape)}")
    return tensor


class Order(NamedTuple):
    """Queries from the smallest value to the largest; a run is a stretch of equal values."""

    queries: Tensor  # (Q,) the queries in order
    last: Tensor | None  # (G,) where in the order each run ends; None: no two are equal

    def arrange(self, rows: Tensor) -> Tensor:
        """Columns of (B, Q) in this order."""
        return rows.index_select(1, self.queries)

    def totals(self, arranged: Tensor) -> Tensor:
        """Sum up to and including each run, (B, G)."""
        sums = arranged.cumsum(1)
        return sums if self.last is None else sums.index_select(1, self.last)

    def place(self) -> Tensor:
        """The run of each query, (Q,), numbered from the smallest value."""
        runs = len(self.queries) if self.last is None else len(self.last)
        last = torch.arange(runs) if self.last is None else self.last
        place = torch.empty_like(self.queries)
        place[self.queries] = torch.searchsorted(last, torch.arange(len(self.queries)))
        return place


def order(values: Tensor) -> Order:
    """Sort values and find runs of equal ones.

    >>> order(torch.tensor([3.0, 1.0, 3.0])).place()
    tensor([1, 0, 1])
    """
    ordered, index = values.sort(stable=True)
    ends = torch.ones(len(values), dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=ends[:-1])
    return Order(index, None if ends.all() else ends.nonzero().squeeze(1))


def steps(totals: Tensor) -> Tensor:
    """What each run adds to the running totals, (B, G): totals_g - totals_(g-1)."""
    added = totals.clone()
    added[:, 1:] -= totals[:, :-1]
    return added
