"""The bins of a reliability diagram, in the three definitions that are in use.

`equal_width`  bins of equal width over [min, max] of the query variance; bin i (0 = surest)
               promises (bins - i) / bins. If all variances are equal, all queries are in bin 0.
`equal_mass`   bins of equal count by variance; bin i promises (bins - i - 1/2) / bins.
`probability`  bins of equal count by a real, calibrated confidence, from the lowest to the
               highest; a bin promises its mean confidence. This is the one to trust.

The last bin is closed. Equal values stay together, so nothing depends on the order of the rows:
in bins of equal count, a run of equal values belongs to the bin that holds its middle.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from surefind.metrics.checks import as_finite, as_rows, as_shares
from surefind.metrics.order import Order, order, steps
from surefind.validation import check_choice, check_whole

DEFINITIONS = ("equal_width", "equal_mass", "probability")


class ReliabilityBins(NamedTuple):
    """What each bin promises and what happened; (bins,), or (B, bins) with weights."""

    confidence: Tensor  # promised; nan in an empty bin of `probability`
    outcome: Tensor  # mean of what happened; nan in an empty bin
    weight: Tensor  # how many queries are in the bin


def reliability_bins(
    values: Tensor,
    outcome: Tensor,
    *,
    definition: str,
    bins: int = 10,
    weights: Tensor | None = None,
) -> ReliabilityBins:
    """The bins of a reliability diagram.

    `values` is a variance for `equal_width` and `equal_mass`, a confidence for `probability`;
    `outcome` is in [0, 1]: AP@k, or whether the top hit is right. `weights` are resample counts,
    (B, Q); every resample has bins of its own.

    >>> var, ap = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([1.0, 0.5, 0.0])
    >>> reliability_bins(var, ap, definition="equal_width", bins=2).outcome
    tensor([0.7500, 0.0000], dtype=torch.float64)
    """
    check_choice("definition", definition, DEFINITIONS)
    check_whole("bins", bins)
    check = as_shares if definition == "probability" else as_finite
    numbers = check("values", values)
    happened = as_shares("outcome", outcome, len(numbers))
    by_value = order(numbers)
    ordered, happened = numbers[by_value.queries], happened[by_value.queries]
    arranged = by_value.arrange(as_rows(weights, len(numbers))).double()
    if definition == "equal_width":
        cuts = _cut_by_width(ordered, arranged, bins)
    else:
        cuts = _cut_by_mass(by_value, arranged, bins)
    weight = _sums(arranged, cuts)
    mean = _sums(arranged * happened, cuts) / weight
    if definition == "probability":
        confidence = _sums(arranged * ordered, cuts) / weight
    else:
        confidence = _promised(definition, bins).expand_as(mean)
    found = ReliabilityBins(confidence, mean, weight)
    return found if weights is not None else ReliabilityBins(*(part[0] for part in found))


def _promised(definition: str, bins: int) -> Tensor:
    """Confidence of each bin of variances, from the surest."""
    highest = bins - 0.5 if definition == "equal_mass" else bins
    return (highest - torch.arange(bins, dtype=torch.float64)) / bins


def _cut_by_width(ordered: Tensor, arranged: Tensor, bins: int) -> Tensor:
    """How many of the ordered values lie below each inner edge, (B, bins - 1)."""
    upto = arranged.cumsum(1)
    drawn = (upto > 0) & (upto - arranged < upto[:, -1:])  # from the first drawn to the last
    first = drawn.int().argmax(1)
    last = (first + drawn.sum(1) - 1).clamp(min=0)
    low, high = ordered[first, None], ordered[last, None]
    width = torch.where(high > low, high - low, torch.inf)
    return torch.searchsorted(ordered, low + width * torch.arange(1, bins) / bins)


def _cut_by_mass(by_value: Order, arranged: Tensor, bins: int) -> Tensor:
    """How many of the ordered values have their middle below each inner edge, (B, bins - 1)."""
    upto = by_value.totals(arranged)
    middle = upto.sub(steps(upto), alpha=0.5)
    runs = torch.searchsorted(middle, upto[:, -1:] * torch.arange(1, bins) / bins)
    return runs if by_value.last is None else pad(by_value.last + 1, (1, 0))[runs]


def _sums(arranged: Tensor, cuts: Tensor) -> Tensor:
    """Sum of each stretch between two cuts, (B, bins)."""
    ends = pad(cuts, (0, 1), value=arranged.shape[1])
    upto = arranged.cumsum(1).gather(1, (ends - 1).clamp(min=0))
    return steps(upto.masked_fill(ends == 0, 0))
