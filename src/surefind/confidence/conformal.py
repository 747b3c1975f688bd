"""Conformal prediction set, novelty p-value, and the verdict made from it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

ROUNDING = 1e-12  # sums of shares such as 1/3 are not exact
MOST = 2000  # novelty values stored in a calibration
MATCH, UNSURE, NO_MATCH = "match", "unsure", "no_match"
VERDICTS = (MATCH, UNSURE, NO_MATCH)


@dataclass(frozen=True)
class PredictionSetRule:
    """How many hits, or labels, to show so that a right one is among them.

    Conformal risk control. They are sorted by probability.
    """

    miss_rate: float  # requested bound on queries without a right one, averaged over classes
    level: float | None  # shown until P(a right one) reaches it; None: not achievable
    most: int  # largest number, K
    mean_size: float  # mean number shown to the calibration queries
    queries: int  # calibration queries
    groups: int  # their classes
    smallest_achievable_miss_rate: float  # the bound that holds if all K are shown


def fit_prediction_set(
    chance: Values, right: NDArray[np.bool_], groups: NDArray[np.generic], *, miss_rate: float = 0.1
) -> PredictionSetRule:
    r"""Return the lowest level that bounds the expected miss rate (conformal risk control).

        (G R(level) + 1) / (G + 1) <= miss_rate,   R = mean over classes of the share of misses

    Angelopoulos et al. 2022, with classes as the exchangeable units: the loss of a class is the
    mean over its queries. A query is missed until the level exceeds the chance of what stands
    above its first right one, so R is a step function and the smallest level is exact.

    Args:
        chance: Probability that a right one is among the first k, (Q, K).
        right: Which are right, (Q, K).
        groups: Classes of the queries, (Q,).
        miss_rate: The bound.
    """
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    before = np.c_[np.full(len(right), -np.inf), chance[:, :-1]]  # the first is shown
    first = before[np.arange(len(right)), right.argmax(1)]
    until = np.where(right.any(1), first, np.inf)  # the level up to which no right one is shown
    steps = np.unique(until[np.isfinite(until)])
    levels = np.r_[0.0, np.nextafter(steps, np.inf)]  # missed up to a step, and not just above it
    order = np.argsort(until)
    missed = np.r_[np.cumsum((1 / sizes[codes])[order][::-1])[::-1], 0.0]
    lost = missed[np.searchsorted(until[order], levels, side="left")]  # G R of each level
    risk = (lost + 1) / (len(sizes) + 1)
    enough = np.flatnonzero(risk <= miss_rate + ROUNDING)
    level = float(levels[enough[0]]) if len(enough) else None
    return PredictionSetRule(
        miss_rate=float(miss_rate),
        level=level,
        most=chance.shape[1],
        mean_size=float(set_size(chance, level).mean()),
        queries=len(chance),
        groups=len(sizes),
        smallest_achievable_miss_rate=float(risk[-1]),
    )


def set_size(chance: Values, level: float | None) -> NDArray[np.int64]:
    """Number to show to each query, (Q,): the smallest k whose chance reaches the level.

    All of them where that is not reached, or where there is no level.
    """
    most = chance.shape[1]
    if level is None:
        return np.full(len(chance), most)
    return np.asarray(np.minimum((chance < level).sum(1) + 1, most), np.int64)


def chance_of_match(confidence: Values) -> Values:
    """Probability of a match among the first k hits, (Q, K): 1 - prod_{j <= k} (1 - p_j)."""
    return np.asarray(1 - np.cumprod(1 - confidence, axis=1))


@dataclass(frozen=True)
class Novelty:
    """Novelty of the calibration queries that have a match; higher is more novel."""

    reference: tuple[float, ...]  # ascending; a subset if there were more than MOST
    queries: int  # before thinning

    def p_value(self, values: Values) -> Values:
        r"""Conformal p-value that each query is in distribution, (Q,).

            p = (1 + #{reference >= value}) / (n + 1)

        For a query in distribution, P(p <= a) <= a for every a. With a thinned reference p is too
        large by less than 1 / (values kept - 1), never too small.
        """
        kept, rank = self._ranks
        above = self.queries - rank[np.searchsorted(kept, values, side="left")]
        return np.asarray((1 + above) / (self.queries + 1))

    @cached_property
    def _ranks(self) -> tuple[Values, NDArray[np.int64]]:
        """Reference values, and how many values are at or below each of them, from 0."""
        return np.asarray(self.reference, float), np.r_[0, _kept_places(self.queries, len(self.reference)) + 1]


def novelty_of(values: Values) -> Novelty:
    """Fit to the novelty values (Q,) of calibration queries that have a match."""
    places = _kept_places(len(values), min(len(values), MOST))
    return Novelty(tuple(np.sort(values)[places].tolist()), len(values))


def _kept_places(queries: int, kept: int) -> NDArray[np.int64]:
    """Evenly spaced ranks, including the first and the last."""
    return np.asarray(np.linspace(0, queries - 1, kept).round(), np.int64)


def novelty_values(distance: Values) -> Values:
    """Novelty of each query: the logarithm of the first of its distances (Q, K), ascending."""
    least = np.maximum(distance[:, -1] * 1e-6, np.finfo(np.float64).tiny)
    return np.log(np.maximum(distance[:, 0], least))


def verdicts(confidence: Values, p_value: Values, *, threshold: float, novelty_level: float) -> list[str]:
    """Return match, unsure or no_match per query, from its surest hit and its novelty p-value.

    `no_match` if p <= `novelty_level`.
    """
    no_match = p_value <= novelty_level
    sure = np.where(confidence >= threshold, MATCH, UNSURE)
    return np.where(no_match, NO_MATCH, sure).tolist()  # type: ignore[no-any-return]
