"""The bins of a reliability diagram, in the three definitions that are in use.

`equal_width`  bins of equal width over [min, max] of the query variance; bin i (0 = surest)
               has confidence (bins - i) / bins. If all variances are equal, all are in bin 0.
`equal_mass`   bins of equal count by variance; bin i has confidence (bins - i - 1/2) / bins.
`probability`  bins of equal count by a calibrated confidence, from the lowest to the highest; a
               bin has its mean confidence. This is the one to use.

The last bin is closed. Equal values stay together, so nothing depends on the order of the rows:
in bins of equal count, a run of equal values belongs to the bin that holds its middle.
"""

import math
from typing import NamedTuple, overload

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import pad

from surefind.metrics._validation import Order, as_finite, as_flags, as_result, as_rows, as_shares, order, steps
from surefind.validation import check_choice, check_whole

DEFINITIONS = ("equal_width", "equal_mass", "probability")


class ReliabilityBins(NamedTuple):
    """Confidence and outcome of each bin; (bins,), or (B, bins) with weights.

    Attributes:
        confidence: As stated; nan in an empty bin of `probability`.
        outcome: Mean of what happened; nan in an empty bin.
        weight: How many queries are in the bin.
    """

    confidence: Tensor
    outcome: Tensor
    weight: Tensor


def reliability_bins(
    values: ArrayLike, outcome: ArrayLike, *, definition: str, bins: int = 10, weights: ArrayLike | None = None
) -> ReliabilityBins:
    """The bins of a reliability diagram.

    Args:
        values: Variances for `equal_width` and `equal_mass`, confidence for `probability`, (Q,).
        outcome: AP@k, or whether the top hit is right, from 0 to 1, (Q,).
        definition: One of `DEFINITIONS`.
        bins: How many bins.
        weights: Resample counts, (B, Q); every resample has bins of its own.

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
        highest = bins - 0.5 if definition == "equal_mass" else bins  # from the surest
        confidence = ((highest - torch.arange(bins, dtype=torch.float64)) / bins).expand_as(mean)
    found = ReliabilityBins(confidence, mean, weight)
    return found if weights is not None else ReliabilityBins(*(part[0] for part in found))


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


@overload
def expected_calibration_error(
    values: ArrayLike, outcome: ArrayLike, *, definition: str = "probability", bins: int = 10, weights: None = None
) -> float: ...
@overload
def expected_calibration_error(
    values: ArrayLike, outcome: ArrayLike, *, definition: str = "probability", bins: int = 10, weights: ArrayLike
) -> Tensor: ...
def expected_calibration_error(
    values: ArrayLike,
    outcome: ArrayLike,
    *,
    definition: str = "probability",
    bins: int = 10,
    weights: ArrayLike | None = None,
) -> float | Tensor:
    r"""Mean gap of confidence and outcome over the bins of `definition`, weighted by size.

        ECE = sum_b n_b / n |confidence_b - outcome_b|

    `values`, `outcome`, `definition`, `bins` and `weights` are as in `reliability_bins`.

    Returns:
        The error; with `weights` one per resample, (B,).

    >>> right = torch.tensor([True, True, True, False])
    >>> expected_calibration_error(torch.full((4,), 0.75), right)
    0.0
    """
    found = reliability_bins(values, outcome, definition=definition, bins=bins, weights=weights)
    gap = (found.confidence - found.outcome).abs().nan_to_num(0.0)
    error = (found.weight * gap).sum(-1) / found.weight.sum(-1)
    return as_result(error.reshape(-1), weights)


def debiased_calibration_error(confidence: ArrayLike, correct: ArrayLike, *, bins: int = 10) -> float:
    r"""ECE of a probability, less what the noise of few queries adds to it.

        ECE   = max(0, sum_b n_b / n [2 g_b - m(g_b, s_b)]),   g_b = |confidence_b - outcome_b|
        m     = s sqrt(2 / pi) exp(-g^2 / (2 s^2)) + g erf(g / (s sqrt 2))
        s_b^2 = outcome_b (1 - outcome_b) / (n_b - 1)

    in bins of equal count. m(g, s) is the mean of |N(g, s^2)|, the gap of a bin whose outcomes are
    drawn anew. Noise adds m - g to the gap, and about as much was in the gap already: the bootstrap
    correction of bias, in closed form (for the absolute error, Kumar et al. 2019 sample it).

    The correction is complete where gaps are larger than their noise. Of the bias of a perfect
    probability it removes 41 %; the rest is `calibration_floor`.

    Args:
        confidence: Probability that each query's answer is correct, (Q,).
        correct: Whether it is, (Q,) bool.
        bins: How many bins.

    Returns:
        The error, not below 0.

    >>> right = torch.tensor([True, True, True, False])
    >>> debiased_calibration_error(torch.full((4,), 0.75), right)
    0.0
    """
    share = as_shares("confidence", confidence)
    right = as_flags("correct", correct, len(share)).double()
    found = reliability_bins(share, right, definition="probability", bins=bins)
    filled = found.weight > 0
    stated, outcome, count = (part[filled] for part in found)
    gap = (stated - outcome).abs()
    noise = (outcome * (1 - outcome) / (count - 1).clamp(min=1)).sqrt()
    z = (gap / noise).nan_to_num(0.0)  # 0 / 0: outcomes are all alike, and as stated
    spread = noise * math.sqrt(2 / math.pi) * (-z.square() / 2).exp()
    drawn_anew = spread + gap * (z / math.sqrt(2)).erf()
    return max(0.0, float((count * (2 * gap - drawn_anew)).sum() / count.sum()))


def calibration_floor(confidence: ArrayLike, *, bins: int = 10) -> float:
    r"""Mean `debiased_calibration_error` of a perfect probability on this many independent queries.

        floor = (2 / sqrt pi) (sqrt 2 - 1) sum_b n_b / n s_b
        s_b^2 = mean_b[confidence (1 - confidence)] / n_b

    With gaps g ~ N(0, s^2) the plain error has the mean s sqrt(2 / pi), and what is subtracted from
    twice of it the mean 2 s / sqrt pi. A model whose error is not above the floor cannot be
    distinguished from a perfect one. Queries that err together (classes) have a higher one.

    `confidence` and `bins` are as in `debiased_calibration_error`.

    >>> round(calibration_floor(torch.full((1000,), 0.5), bins=1), 4)
    0.0074
    """
    share = as_shares("confidence", confidence)
    var = share * (1 - share)  # of each outcome
    found = reliability_bins(share, var, definition="probability", bins=bins)
    noise = (found.outcome / found.weight).sqrt().nan_to_num(0.0)
    mean = float((found.weight * noise).sum() / found.weight.sum())
    return 2 / math.sqrt(math.pi) * (math.sqrt(2) - 1) * mean


def brier_score(confidence: ArrayLike, correct: ArrayLike) -> Tensor:
    """Squared distance of the confidence from 1 (correct) or 0.

    `confidence` and `correct` are as in `debiased_calibration_error`.

    Returns:
        One value per query, (Q,).

    >>> brier_score(torch.tensor([0.5, 1.0]), torch.tensor([True, True]))
    tensor([0.2500, 0.0000], dtype=torch.float64)
    """
    stated = as_shares("confidence", confidence)
    return (stated - as_flags("correct", correct, len(stated)).double()).square()


def negative_log_likelihood(confidence: ArrayLike, correct: ArrayLike) -> Tensor:
    """-log of the probability given to what happened.

    Nothing is clipped: an event of probability 0 that happens costs infinity.

    `confidence` and `correct` are as in `debiased_calibration_error`.

    Returns:
        One value per query, (Q,).

    >>> negative_log_likelihood(torch.tensor([1.0, 1.0]), torch.tensor([True, False]))
    tensor([0., inf], dtype=torch.float64)
    """
    stated = as_shares("confidence", confidence)
    right = as_flags("correct", correct, len(stated))
    return torch.where(right, stated.log(), torch.log1p(-stated)).neg().add(0.0)  # no -0
