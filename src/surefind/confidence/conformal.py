"""Conformal answers: how many hits to show, whether a query belongs here, and the verdict.

`PredictionSetRule` is conformal risk control, `Novelty` a conformal p-value.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from surefind.confidence.evidence import Neighbourhood

Values = NDArray[np.float64]

ROUNDING = 1e-12  # sums of shares such as 1/3 are not exact
MOST = 2000  # values kept of how strange calibration queries are
MATCH, UNSURE, NO_MATCH = "match", "unsure", "no_match"
VERDICTS = (MATCH, UNSURE, NO_MATCH)


@dataclass(frozen=True)
class PredictionSetRule:
    """Show hits until, by their confidences, a match is among them with this level."""

    miss: float  # asked: at most this share of queries is shown no match, on average over classes
    level: float | None  # None: even all hits do not do
    most: int  # hits looked at, K
    mean_size: float  # hits shown, over the calibration queries
    queries: int
    groups: int  # classes of the queries
    reached: float  # the smallest miss that could be asked, with all K shown


def fit_prediction_set(
    confidence: Values,
    match: NDArray[np.bool_],
    groups: NDArray[np.generic],
    *,
    miss: float = 0.1,
) -> PredictionSetRule:
    r"""The lowest level that keeps the expected share of misses, by conformal risk control.

        (G R(level) + 1) / (G + 1) <= miss,   R = mean over classes of the share of misses

    Angelopoulos et al. 2022, with a class as the unit that is exchangeable: its loss is the mean
    over its queries, so queries of one class may be as alike as they like. A query is missed until
    the level exceeds the chance of a match above its first match, so R is a sum of steps, and the
    smallest level is found exactly.
    """
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    before = np.c_[np.full(len(match), -np.inf), _chance(confidence)[:, :-1]]  # the first is shown
    first = before[np.arange(len(match)), match.argmax(1)]
    until = np.where(match.any(1), first, np.inf)  # the level up to which no match is shown
    steps = np.unique(until[np.isfinite(until)])
    levels = np.r_[0.0, np.nextafter(steps, np.inf)]  # missed up to a step, and not just above it
    order = np.argsort(until)
    missed = np.r_[np.cumsum((1 / sizes[codes])[order][::-1])[::-1], 0.0]
    lost = missed[np.searchsorted(until[order], levels, side="left")]  # G R of each level
    risk = (lost + 1) / (len(sizes) + 1)
    enough = np.flatnonzero(risk <= miss + ROUNDING)
    level = float(levels[enough[0]]) if len(enough) else None
    return PredictionSetRule(
        miss=float(miss),
        level=level,
        most=confidence.shape[1],
        mean_size=float(set_size(confidence, level).mean()),
        queries=len(confidence),
        groups=len(sizes),
        reached=float(risk[-1]),
    )


def set_size(confidence: Values, level: float | None) -> NDArray[np.int64]:
    """How many of the hits to show to each query, (Q,).

    The first k, k the smallest with 1 - prod_{j <= k} (1 - confidence_j) >= level; all of them
    where that is not reached, or where there is no level.
    """
    most = confidence.shape[1]
    if level is None:
        return np.full(len(confidence), most)
    return np.asarray(np.minimum((_chance(confidence) < level).sum(1) + 1, most), np.int64)


def _chance(sure: Values) -> Values:
    """Of a match among the first k hits, (Q, K)."""
    return np.asarray(1 - np.cumprod(1 - sure, axis=1))


@dataclass(frozen=True)
class Novelty:
    """How strange calibration queries are that belong to the gallery; higher is stranger."""

    reference: tuple[float, ...]  # ascending; some of the values where there were very many
    queries: int  # values there were

    def p_value(self, values: Values) -> Values:
        r"""Conformal p-value of each query: small says that it does not belong, (Q,).

            p = (1 + #{reference >= value}) / (n + 1)

        For a query that belongs, P(p <= a) <= a for every a. Where values were left out, all those
        between two kept ones count as if they were as strange as the value: p is then too large by
        less than 1 / (values kept - 1), never too small.
        """
        kept, rank = self._table
        above = self.queries - rank[np.searchsorted(kept, values, side="left")]
        return np.asarray((1 + above) / (self.queries + 1))

    @cached_property
    def _table(self) -> tuple[Values, NDArray[np.int64]]:
        """The values; and how many of all lie at or below the last one passed, if any."""
        kept = np.asarray(self.reference, float)
        return kept, np.r_[0, _kept_places(self.queries, len(kept)) + 1]


def novelty_of(values: Values) -> Novelty:
    """From the novelty of calibration queries that belong to the gallery, (Q,)."""
    places = _kept_places(len(values), min(len(values), MOST))
    return Novelty(tuple(np.sort(values)[places].tolist()), len(values))


def _kept_places(queries: int, kept: int) -> NDArray[np.int64]:
    """Evenly spaced from the least to the most strange."""
    return np.asarray(np.linspace(0, queries - 1, kept).round(), np.int64)


def novelty_values(seen: Neighbourhood) -> Values:
    """How strange a query is here: the logarithm of its nearest distance, (Q,)."""
    nearest = seen.profile[:, 0]
    least = np.maximum(seen.profile[:, -1] * 1e-6, np.finfo(np.float64).tiny)
    return np.log(np.maximum(nearest, least))


def verdicts(
    confidence: Values, belongs: Values, *, threshold: float | None, novelty_level: float
) -> list[str]:
    """One per query, from the confidence of its first hit and the p-value of belonging here.

    A query is foreign when fewer than `novelty_level` of the queries that belong are as strange.
    Without a threshold nothing is guaranteed, so nothing is called a match.
    """
    sure = confidence >= (np.inf if threshold is None else threshold)
    foreign = belongs <= novelty_level
    return np.where(foreign, NO_MATCH, np.where(sure, MATCH, UNSURE)).tolist()  # type: ignore[no-any-return]
