"""Probability that a hit is a match, from evidence: constrained logistic, cross-fitted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]
from scipy.special import expit  # type: ignore[import-untyped]
from sklearn.model_selection import GroupKFold  # type: ignore[import-untyped]

from surefind.confidence.evidence import COLUMNS, Neighbourhood, Numbers, evidence

FOLDS = 5
PENALTY = 10.0  # on squared weights of standardised columns
EDGE = 1e-4  # confidence is clipped to [EDGE, 1 - EDGE]
_STILL = 1e-9  # standard deviation below which a column is constant
ALLOWED = {1: (0, None), -1: (None, 0), 0: (None, None)}  # weights, by direction
_FIRST, _LATER = slice(0, 1), slice(1, None)  # hits: the first has a model of its own


def folds_of(groups: NDArray[np.generic]) -> NDArray[np.int64]:
    """Fold of each query, (Q,); classes are kept whole.

    >>> folds_of(np.array([7, 7, 3, 3, 9, 9]))
    array([1, 1, 2, 2, 0, 0])
    """
    fold = np.zeros(len(groups), np.int64)
    if (count := min(FOLDS, len(np.unique(groups)))) > 1:
        for number, (_, judged) in enumerate(GroupKFold(count).split(groups, groups=groups)):
            fold[judged] = number
    return fold


@dataclass(frozen=True)
class Logistic:
    r"""P = 1 / (1 + exp(-z)),  z = bias + sum_i weight_i (x_i - centre_i) / scale_i"""

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    def log_odds(self, columns: Numbers) -> Numbers:
        """Log odds for columns (..., F)."""
        standard = (columns - np.array(self.centre)) / np.array(self.scale)
        return np.asarray(self.bias + standard @ np.array(self.weights))

    def probability(self, columns: Numbers) -> Numbers:
        """Probability for columns (..., F)."""
        return np.asarray(expit(self.log_odds(columns)))


def fit_logistic(
    columns: Numbers,
    match: NDArray[np.bool_],
    *,
    directions: Sequence[int],
    penalty: float = PENALTY,
) -> Logistic:
    r"""Return the weights w that minimise  sum log(1 + exp(-s z)) + penalty |w|^2 / 2,  s = +-1.

    Columns are (..., F). Direction 1 allows no negative weight, -1 no positive one; a constant
    column gets weight 0.
    """
    columns, match = columns.reshape(-1, columns.shape[-1]), match.reshape(-1)
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
        ALLOWED[way] if moves else (0, 0) for way, moves in zip(directions, varies, strict=True)
    ]
    bounds.append((None, None))  # of the bias
    start = np.zeros(len(bounds))
    found = minimize(cost, start, jac=True, bounds=bounds, options={"maxiter": 1000}).x  # L-BFGS-B
    return Logistic(
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
        weights=tuple(found[:-1].tolist()),
        bias=float(found[-1]),
    )


def crossfitted(
    columns: Numbers,
    match: NDArray[np.bool_],
    fold: NDArray[np.int64],
    *,
    directions: Sequence[int],
) -> Numbers:
    """Probability of each row of columns (N, F) by a logistic model of the other folds, (N,)."""
    found = np.empty(len(match))
    for number in range(int(fold.max()) + 1):
        judged = fold == number
        rest = ~judged if judged.any() and not judged.all() else np.ones(len(fold), dtype=bool)
        fitted = fit_logistic(columns[rest], match[rest], directions=directions)
        found[judged] = fitted.probability(columns[judged])
    return np.clip(found, EDGE, 1 - EDGE)


@dataclass(frozen=True)
class Recalibration:
    """A monotone map of [0, 1], linear in the logits between its knots."""

    before: tuple[float, ...]  # probabilities, ascending
    after: tuple[float, ...]

    def __call__(self, probability: Numbers) -> Numbers:
        if not self.before:
            return np.clip(probability, EDGE, 1 - EDGE)
        mapped = np.interp(_logit(probability), _logit(np.array(self.before)), self.after)
        return np.clip(mapped, EDGE, 1 - EDGE)


def fit_recalibration(probability: Numbers, match: NDArray[np.bool_]) -> Recalibration:
    r"""Fit a beta calibration map.

    logit p' = a log p - b log(1 - p) + c,  a, b >= 0 (Kull et al. 2017)
    """
    if match.all() or not match.any():
        return Recalibration((), ())
    probability = np.clip(probability, EDGE, 1 - EDGE)
    bent = fit_logistic(_both_logs(probability), match, directions=(1, 1), penalty=1e-3)
    knots = np.linspace(_logit(np.array(EDGE)), _logit(np.array(1 - EDGE)), 201)
    before = 1 / (1 + np.exp(-knots))
    after = np.maximum.accumulate(bent.probability(_both_logs(before)))
    return Recalibration(tuple(before.tolist()), tuple(after.tolist()))


def _both_logs(probability: Numbers) -> Numbers:
    return np.stack([np.log(probability), -np.log1p(-probability)], axis=-1)


def _logit(probability: Numbers) -> Numbers:
    inside = np.clip(probability, EDGE, 1 - EDGE)
    return np.log(inside) - np.log1p(-inside)


@dataclass(frozen=True)
class ConfidenceModel:
    """One recalibrated logistic model for the first hit and one for later hits."""

    names: tuple[str, ...]  # of the columns
    first: Logistic
    later: Logistic
    first_map: Recalibration
    later_map: Recalibration

    def confidence(self, neighbourhood: Neighbourhood) -> Numbers:
        """Return P(match) of every hit, (Q, H)."""
        columns = evidence(neighbourhood, self.names)
        return np.concatenate(
            [
                self.first_map(self.first.probability(columns[:, _FIRST])),
                self.later_map(self.later.probability(columns[:, _LATER])),
            ],
            axis=1,
        )


def fit_confidence(
    neighbourhood: Neighbourhood,
    match: NDArray[np.bool_],
    fold: NDArray[np.int64],
    *,
    names: Sequence[str],
    held_out: Sequence[Neighbourhood] = (),
) -> tuple[ConfidenceModel, Numbers]:
    """Fit a confidence model to labelled hits.

    Args:
        neighbourhood: Q queries with H hits each.
        match: Which hits are matches, (Q, H).
        fold: Fold of each query, (Q,).
        names: Evidence columns to use.
        held_out: Per fold, the neighbourhoods of all queries with variance heads that never saw
            the fold; empty if no heads were learned.

    Returns:
        The model fitted to all queries, and the cross-fitted confidence (Q, H), on which no label
        of a query's own fold has influence.
    """
    columns = evidence(neighbourhood, names)
    without = [evidence(its, names) for its in held_out] or [columns] * (int(fold.max()) + 1)
    directions = [COLUMNS[name].direction for name in names]
    (first, first_map, sure), (later, later_map, less_sure) = (
        _fit_hits(
            columns[:, hits], [its[:, hits] for its in without], match[:, hits], fold, directions
        )
        for hits in (_FIRST, _LATER)
    )
    model = ConfidenceModel(tuple(names), first, later, first_map, later_map)
    return model, np.concatenate([sure, less_sure], axis=1)


def _fit_hits(
    columns: Numbers,
    held_out: Sequence[Numbers],
    match: NDArray[np.bool_],
    fold: NDArray[np.int64],
    directions: Sequence[int],
) -> tuple[Logistic, Recalibration, Numbers]:
    """Fit a logistic model and its recalibration, and cross-fit both (nested cross-validation).

    A recalibration is fitted to out-of-fold probabilities. The one that judges fold k uses only
    models that never saw k.
    """
    probability, crossfitted = np.empty(match.shape), np.empty(match.shape)
    for k, its in enumerate(held_out):
        own = fold == k
        inner = np.empty(match.shape)  # by a model that saw neither k nor the fold of the query
        for j in range(len(held_out)):
            rest = (fold != j) & ~own
            fitted = fit_logistic(its[rest], match[rest], directions=directions)
            inner[fold == j] = fitted.probability(its[fold == j])
        nested = fit_recalibration(inner[~own], match[~own])
        probability[own], crossfitted[own] = inner[own], nested(inner[own])
    whole = fit_logistic(columns, match, directions=directions)
    return whole, fit_recalibration(probability, match), crossfitted
