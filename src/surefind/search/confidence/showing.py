"""How many hits to show, so that a match is among them as often as was asked."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefind.errors import InvalidArgument
from surefind.metrics.checks import check_number

Values = NDArray[np.float64]

ROUNDING = 1e-12  # sums of shares such as 1/3 are not exact


@dataclass(frozen=True)
class Showing:
    """Show hits until, by their confidences, a match is among them with this level."""

    miss: float  # asked: at most this share of queries is shown no match, on average over classes
    level: float | None  # None: even all hits do not do
    most: int  # hits looked at, K
    mean_size: float  # hits shown, over the calibration queries
    queries: int
    groups: int  # classes of the queries
    reached: float  # the smallest miss that could be asked, with all K shown


def showing_rule(
    confidence: Values,
    match: NDArray[np.bool_],
    groups: NDArray[np.generic],
    *,
    miss: float = 0.1,
) -> Showing:
    r"""The lowest level that keeps the expected share of misses, by conformal risk control.

        (G R(level) + 1) / (G + 1) <= miss,   R = mean over classes of the share of misses

    Angelopoulos et al. 2022, with a class as the unit that is exchangeable: its loss is the mean
    over its queries, so queries of one class may be as alike as they like. A query is missed until
    the level exceeds the chance of a match above its first match, so R is a sum of steps, and the
    smallest level is found exactly.
    """
    check_number("miss", miss, "a share between 0 and 1", lambda x: 0 < x < 1)
    sure = _checked(confidence)
    match, groups = np.asarray(match), np.asarray(groups)
    if match.dtype != np.bool_ or match.shape != sure.shape or groups.shape != sure.shape[:1]:
        raise InvalidArgument(
            "match, groups",
            expected=f"yes or no for each hit, {sure.shape}, and a class for each query",
            got=f"{match.dtype} {match.shape} and {groups.shape}",
            fix="pass the same labelled queries in the same order to all three",
        )
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    levels, lost = _steps(_missed_until(sure, match), 1 / sizes[codes])
    risk = (lost + 1) / (len(sizes) + 1)
    enough = np.flatnonzero(risk <= miss + ROUNDING)
    level = float(levels[enough[0]]) if len(enough) else None
    return Showing(
        miss=float(miss),
        level=level,
        most=sure.shape[1],
        mean_size=float(_sizes(sure, level).mean()),
        queries=len(sure),
        groups=len(sizes),
        reached=float(risk[-1]),
    )


def _steps(until: Values, weights: Values) -> tuple[Values, Values]:
    """Levels at which fewer are missed, ascending; and G R there: weights add up to G."""
    steps = np.unique(until[np.isfinite(until)])
    levels = np.r_[0.0, np.nextafter(steps, np.inf)]  # missed up to a step, and not just above it
    order = np.argsort(until)
    missed = np.r_[np.cumsum(weights[order][::-1])[::-1], 0.0]
    return levels, missed[np.searchsorted(until[order], levels, side="left")]


def how_many(confidence: Values, rule: Showing) -> NDArray[np.int64]:
    """How many of the hits to show to each query, (Q,).

    The first k, k the smallest with 1 - prod_{j <= k} (1 - confidence_j) >= level; all `rule.most`
    where that is not reached, or where the rule has no level.
    """
    sure = _checked(confidence)
    if sure.shape[1] < rule.most:
        raise InvalidArgument(
            "confidence",
            expected=f"{rule.most} hits per query, as when calibrated",
            got=str(sure.shape[1]),
            fix=f"search with k={rule.most}; a hit that does not exist has confidence 0",
        )
    return _sizes(sure[:, : rule.most], rule.level)


def _sizes(sure: Values, level: float | None) -> NDArray[np.int64]:
    most = sure.shape[1]
    if level is None:
        return np.full(len(sure), most)
    return np.asarray(np.minimum((_chance(sure) < level).sum(1) + 1, most), np.int64)


def _chance(sure: Values) -> Values:
    """Of a match among the first k hits, (Q, K)."""
    return np.asarray(1 - np.cumprod(1 - sure, axis=1))


def _missed_until(sure: Values, match: NDArray[np.bool_]) -> Values:
    """The level up to which a query is shown no match; infinite where there is none."""
    before = np.c_[np.full(len(sure), -np.inf), _chance(sure)[:, :-1]]  # the first is shown
    first = match.argmax(1)
    return np.where(match.any(1), before[np.arange(len(sure)), first], np.inf)


def _checked(confidence: object) -> Values:
    sure = np.asarray(confidence, float)
    if sure.ndim != 2 or not sure.size or not ((sure >= 0) & (sure <= 1)).all():
        raise InvalidArgument(
            "confidence",
            expected="numbers from 0 to 1, one row per query and one column per hit",
            got=f"shape {sure.shape}" + (f", such as {sure.flat[0]:g}" if sure.size else ""),
            fix="pass the calibrated confidence of the nearest hits, nearest first",
        )
    return sure
