"""A logistic model whose weights may not point the wrong way."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]
from scipy.special import expit  # type: ignore[import-untyped]

from surefind.search.confidence.evidence import Numbers

PENALTY = 10.0  # on the squares of the weights of standardised columns
_STILL = 1e-9  # a column that varies less says nothing


@dataclass(frozen=True)
class Logistic:
    r"""P = 1 / (1 + exp(-z)),  z = bias + sum_i weight_i (x_i - centre_i) / scale_i"""

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    def probability(self, columns: Numbers) -> Numbers:
        """Of columns (..., F)."""
        standard = (columns - np.array(self.centre)) / np.array(self.scale)
        probability: Numbers = expit(self.bias + standard @ np.array(self.weights))
        return probability


def fit_logistic(
    columns: Numbers,
    match: NDArray[np.bool_],
    *,
    directions: Sequence[int],
    penalty: float = PENALTY,
) -> Logistic:
    r"""The weights w that minimise  sum log(1 + exp(-s z)) + penalty |w|^2 / 2,  s = +-1.

    A column with direction 1 gets no negative weight, one with -1 no positive one. A column that
    does not vary gets none.
    """
    centre, scale = columns.mean(axis=0), columns.std(axis=0)
    varies = scale > _STILL
    scale = np.where(varies, scale, 1.0)
    standard = (columns - centre) / scale
    sign = np.where(match, 1.0, -1.0)

    def cost(point: Numbers) -> tuple[float, Numbers]:
        weights, bias = point[:-1], point[-1]
        z = sign * (standard @ weights + bias)
        pull = -sign * expit(-z)
        total = np.logaddexp(0, -z).sum() + penalty / 2 * weights @ weights
        return float(total), np.append(pull @ standard + penalty * weights, pull.sum())

    bounds = [
        _bound(way) if moves else (0, 0) for way, moves in zip(directions, varies, strict=True)
    ]
    start = np.zeros(len(bounds) + 1)
    found = minimize(
        cost, start, jac=True, bounds=[*bounds, (None, None)], method="L-BFGS-B",
        options={"maxiter": 1000},
    ).x  # fmt: skip
    return Logistic(
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
        weights=tuple(found[:-1].tolist()),
        bias=float(found[-1]),
    )


def _bound(direction: int) -> tuple[float | None, float | None]:
    return {1: (0.0, None), -1: (None, 0.0), 0: (None, None)}[direction]
