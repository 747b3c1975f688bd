"""Is a confidence honest: how far is what it promises from what happens?

There are several definitions of the expected calibration error (see `bins.py`): report its name.
"""

import math
from typing import overload

import torch
from torch import Tensor

from surefind.metrics.bins import reliability_bins
from surefind.metrics.checks import as_flags, as_result, as_shares


@overload
def expected_calibration_error(
    values: Tensor,
    outcome: Tensor,
    *,
    definition: str = "probability",
    bins: int = 10,
    weights: None = None,
) -> float: ...
@overload
def expected_calibration_error(
    values: Tensor,
    outcome: Tensor,
    *,
    definition: str = "probability",
    bins: int = 10,
    weights: Tensor,
) -> Tensor: ...
def expected_calibration_error(
    values: Tensor,
    outcome: Tensor,
    *,
    definition: str = "probability",
    bins: int = 10,
    weights: Tensor | None = None,
) -> float | Tensor:
    r"""Mean distance of promise and outcome over the bins of `definition`, weighted by size.

        ECE = sum_b n_b / n |confidence_b - outcome_b|

    >>> right = torch.tensor([True, True, True, False])
    >>> expected_calibration_error(torch.full((4,), 0.75), right)
    0.0
    """
    found = reliability_bins(values, outcome, definition=definition, bins=bins, weights=weights)
    gap = (found.confidence - found.outcome).abs().nan_to_num(0.0)
    error = (found.weight * gap).sum(-1) / found.weight.sum(-1)
    return as_result(error.reshape(-1), weights)


def debiased_calibration_error(confidence: Tensor, correct: Tensor, *, bins: int = 10) -> float:
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


def calibration_floor(confidence: Tensor, *, bins: int = 10) -> float:
    r"""Mean `debiased_calibration_error` of a perfect probability on this many independent queries.

        floor = (2 / sqrt pi) (sqrt 2 - 1) sum_b n_b / n s_b
        s_b^2 = mean_b[confidence (1 - confidence)] / n_b

    With gaps g ~ N(0, s^2) the plain error has the mean s sqrt(2 / pi), and what is subtracted from
    twice of it the mean 2 s / sqrt pi. A model whose error is not above the floor cannot be told
    from a perfect one. Queries that err together (classes) have a higher one.

    Args:
        confidence: Probability that each query's answer is correct, (Q,).
        bins: How many bins.

    >>> round(calibration_floor(torch.full((1000,), 0.5), bins=1), 4)
    0.0074
    """
    share = as_shares("confidence", confidence)
    var = share * (1 - share)  # of each outcome
    found = reliability_bins(share, var, definition="probability", bins=bins)
    noise = (found.outcome / found.weight).sqrt().nan_to_num(0.0)
    mean = float((found.weight * noise).sum() / found.weight.sum())
    return 2 / math.sqrt(math.pi) * (math.sqrt(2) - 1) * mean


def brier_score(confidence: Tensor, correct: Tensor) -> Tensor:
    """Squared distance of the confidence from 1 (correct) or 0, (Q,).

    >>> brier_score(torch.tensor([0.5, 1.0]), torch.tensor([True, True]))
    tensor([0.2500, 0.0000], dtype=torch.float64)
    """
    promised = as_shares("confidence", confidence)
    return (promised - as_flags("correct", correct, len(promised)).double()).square()


def negative_log_likelihood(confidence: Tensor, correct: Tensor) -> Tensor:
    """-log of the probability given to what happened, (Q,).

    Nothing is clipped: who calls something impossible that happens, pays infinity.

    >>> negative_log_likelihood(torch.tensor([1.0, 1.0]), torch.tensor([True, False]))
    tensor([0., inf], dtype=torch.float64)
    """
    promised = as_shares("confidence", confidence)
    right = as_flags("correct", correct, len(promised))
    return torch.where(right, promised.log(), torch.log1p(-promised)).neg().add(0.0)  # no -0
