"""Is a confidence honest: how far is what it promises from what happens?

There are several definitions of the expected calibration error (see `bins.py`): report its name.
"""

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
