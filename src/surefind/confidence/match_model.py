"""Probability that a hit is a match, from evidence: constrained logistic, cross-fitted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefind.confidence.evidence import COLUMNS, Neighbourhood, Numbers, evidence

FOLDS = 5
PENALTY = 10.0  # on squared weights of standardised columns
EDGE = 1e-4  # confidence is clipped to [EDGE, 1 - EDGE]
_STEP = 1e-6  # times a difference: it keeps the order of hits, and changes nothing else
_STILL = 1e-9  # standard deviation below which a column is constant
# Bounds of the weights, by direction.
ALLOWED: dict[int, tuple[float | None, float | None]] = {1: (0, None), -1: (None, 0), 0: (None, None)}
_HITS = (slice(0, 1), slice(1, None))  # the nearest has a model of its own


def folds_of(groups: NDArray[np.generic]) -> NDArray[np.int64]:
    """Fold of each query, (Q,); classes are kept whole, the largest first into the smallest fold.

    >>> folds_of(np.array([7, 7, 3, 3, 9, 9]))
    array([1, 1, 2, 2, 0, 0])
    """
    _, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    fold, sizes = np.zeros(len(counts), np.int64), np.zeros(min(FOLDS, len(counts)))
    for code in np.argsort(counts, kind="stable")[::-1]:
        fold[code] = sizes.argmin()
        sizes[fold[code]] += counts[code]
    return fold[codes]


def expit(x: Numbers) -> Numbers:
    """1 / (1 + exp(-x)); scipy's takes long to load."""
    return np.asarray(np.exp(-np.logaddexp(0, -x)))


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
        return expit(self.log_odds(columns))


def fit_logistic(
    columns: Numbers, match: NDArray[np.bool_], *, directions: Sequence[int], penalty: float = PENALTY
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

    bounds = [ALLOWED[way] if moves else (0, 0) for way, moves in zip(directions, varies, strict=True)]
    bounds.append((None, None))  # of the bias
    found = minimise(cost, np.zeros(len(bounds)), bounds, steps=1000)
    return Logistic(
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
        weights=tuple(found[:-1].tolist()),
        bias=float(found[-1]),
    )


def minimise(
    cost: Callable[[Numbers], tuple[float, Numbers]],
    start: Numbers,
    bounds: Sequence[tuple[float | None, float | None]],
    *,
    steps: int,
) -> Numbers:
    """Return the minimum of a cost with a gradient, within bounds (L-BFGS-B)."""
    from scipy.optimize import minimize  # type: ignore[import-untyped]  # not for a search

    return np.asarray(minimize(cost, start, jac=True, bounds=bounds, options={"maxiter": steps}).x)


def crossfitted(
    columns: Numbers, match: NDArray[np.bool_], fold: NDArray[np.int64], *, directions: Sequence[int]
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
    r"""Beta calibration: logit p' = a log p - b log(1 - p) + c,  a, b >= 0 (Kull et al. 2017)."""

    a: float = 1.0
    b: float = 1.0
    c: float = 0.0

    def __call__(self, probability: Numbers) -> Numbers:
        log, other = np.moveaxis(_both_logs(probability), -1, 0)
        mapped = expit(self.a * log + self.b * other + self.c)
        return np.asarray(np.clip(mapped, EDGE, 1 - EDGE))


def fit_recalibration(probability: Numbers, match: NDArray[np.bool_]) -> Recalibration:
    """Fit a monotone map of probabilities to matches; where all are alike, it changes nothing."""
    if match.all() or not match.any():
        return Recalibration()
    found = fit_logistic(_both_logs(probability), match, directions=(1, 1), penalty=1e-3)
    a, b = (np.array(found.weights) / found.scale).tolist()
    centre = np.array(found.centre)
    return Recalibration(a, b, float(found.bias - centre @ [a, b]))


def _both_logs(probability: Numbers) -> Numbers:
    inside = np.clip(probability, EDGE, 1 - EDGE)
    return np.stack([np.log(inside), -np.log1p(-inside)], axis=-1)


@dataclass(frozen=True)
class ConfidenceModel:
    """One recalibrated logistic model for the nearest hit and one for later hits.

    The surest of many hits is right less often than its own probability says: it has a
    recalibration of its own, and no other hit exceeds it.
    """

    names: tuple[str, ...]  # of the columns
    first: Logistic
    later: Logistic
    first_map: Recalibration
    later_map: Recalibration
    surest_map: Recalibration

    def confidence(self, neighbourhood: Neighbourhood) -> Numbers:
        """Return P(match) of every hit, (Q, H)."""
        columns = evidence(neighbourhood, self.names)
        probability = _of_hits((self.first, self.later), columns)
        return _limited(_mapped((self.first_map, self.later_map), probability), self.surest_map)


def fit_confidence(
    neighbourhood: Neighbourhood,
    match: NDArray[np.bool_],
    fold: NDArray[np.int64],
    *,
    names: Sequence[str],
    held_out: Sequence[Neighbourhood] = (),
) -> tuple[ConfidenceModel, Numbers]:
    """Fit a confidence model to labelled hits (nested cross-validation).

    Recalibrations are fitted to out-of-fold probabilities. Those that judge fold k use only models
    that never saw k.

    `held_out` has per fold the neighbourhoods of all queries with variance heads that never saw the
    fold; it is empty if no heads were learned.

    Returns:
        The model fitted to all queries, and the cross-fitted confidence (Q, H), on which no label
        of a query's own fold has influence.
    """
    columns = evidence(neighbourhood, names)
    without = [evidence(its, names) for its in held_out] or [columns] * (int(fold.max()) + 1)
    directions = [COLUMNS[name].direction for name in names]
    probability, crossfitted = np.empty(match.shape), np.empty(match.shape)
    for k, its in enumerate(without):
        own = fold == k
        inner = np.empty(match.shape)  # by a model that saw neither k nor the fold of the query
        for j in range(len(without)):
            rest = (fold != j) & ~own
            fitted = _fit_hits(its[rest], match[rest], directions)
            inner[fold == j] = _of_hits(fitted, its[fold == j])
        *maps, surest = _fit_maps(inner[~own], match[~own])
        probability[own] = inner[own]
        crossfitted[own] = _limited(_mapped(maps, inner[own]), surest)
    first, later = _fit_hits(columns, match, directions)
    first_map, later_map, surest_map = _fit_maps(probability, match)
    model = ConfidenceModel(tuple(names), first, later, first_map, later_map, surest_map)
    return model, crossfitted


def _fit_hits(columns: Numbers, match: NDArray[np.bool_], directions: Sequence[int]) -> list[Logistic]:
    """Fit the models of the nearest hit and of later ones to columns (Q, H, F)."""
    return [fit_logistic(columns[:, hits], match[:, hits], directions=directions) for hits in _HITS]


def _of_hits(models: Sequence[Logistic], columns: Numbers) -> Numbers:
    parts = zip(models, _HITS, strict=True)
    return np.concatenate([its.probability(columns[:, hits]) for its, hits in parts], axis=1)


def _fit_maps(probability: Numbers, match: NDArray[np.bool_]) -> list[Recalibration]:
    """Fit the recalibrations of the nearest hit, of later ones, and of the surest."""
    maps = [fit_recalibration(probability[:, hits], match[:, hits]) for hits in _HITS]
    confidence, rows = _mapped(maps, probability), np.arange(len(match))
    surest = confidence.argmax(axis=1)
    return [*maps, fit_recalibration(confidence[rows, surest], match[rows, surest])]


def _mapped(maps: Sequence[Recalibration], probability: Numbers) -> Numbers:
    parts = zip(maps, _HITS, strict=True)
    return np.concatenate([its(probability[:, hits]) for its, hits in parts], axis=1)


def _limited(confidence: Numbers, surest: Recalibration) -> Numbers:
    """Recalibrate the surest hit of each query; the others stay in order behind it."""
    most = confidence.max(axis=1, keepdims=True)
    limit = surest(most) - _STEP * (most - confidence)
    return np.asarray(np.where(confidence < most, np.minimum(confidence, limit), limit))
