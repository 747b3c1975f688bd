"""Confidence threshold above which a precision is guaranteed (learn then test)."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]
Flags = NDArray[np.bool_]

STARTS = 3  # start points of the fallback test: one early error does not end it
GROWTH = 1.07  # ratio of successive numbers of selected queries
GRID = np.round(np.arange(0.5, 0.9951, 0.005), 3)  # precisions tried for `best`
MOST_TIMES = 1000.0  # `queries_needed` is None beyond this multiple of the data


@dataclass(frozen=True)
class PrecisionGuarantee:
    """Confidence threshold above which precision >= `precision` holds with `probability`."""

    precision: float  # requested share of correct results among those called a match
    probability: float  # that it holds, over calibration sets like this one
    threshold: float | None = None  # confidence from which a hit is called a match; None: no guarantee
    coverage: float = 0.0  # share of the calibration queries at or above the threshold
    selected: int = 0  # number of them
    right: int = 0  # number of these whose first hit is a match
    queries: int = 0  # calibration queries
    groups: int = 0  # their classes
    design_effect: float = 1.0  # variance inflation because errors cluster by class
    horizon: int | None = None  # number of future queries for which it holds; None: the long run
    queries_needed: int | None = None  # rough number of queries that would be enough, if these are not
    best: float = 0.0  # highest precision these data support, 0 if none; a hint, chosen after the fact


def guarantee_precision(
    confidence: Values,
    right: Flags,
    groups: NDArray[np.generic],
    *,
    precision: float,
    probability: float = 0.9,
    horizon: int | None = None,
) -> PrecisionGuarantee:
    r"""Return the lowest threshold whose precision holds with the stated probability.

    Learn then test (Angelopoulos et al. 2021). The n_1 < n_2 < ... most confident queries are
    selected, and each H_j: P(wrong | confidence >= t_j) >= 1 - precision is tested with

        p_j = P(Bin(n*_j, 1 - precision) <= risk_j n*_j)

    from the most confident downward; n* is the effective size of Korn and Graubard, n itself where
    each query has a class of its own. The fallback test (Wiens 2003) has STARTS start points with
    equal parts of 1 - probability; what a start does not spend is passed on to the next one, so
    the probability of any false rejection is at most 1 - probability. This is exact if each query
    has a class of its own and precision rises with confidence, else as good as the effective size.

    This is about the long run. Precision among `horizon` future queries varies too: then Q queries
    count as Q horizon / (Q + horizon), by the variance of a difference of two proportions.
    """
    codes = np.unique(groups, return_inverse=True)[1]
    order = np.argsort(-confidence, kind="stable")
    delta = 1 - probability
    n, wrong = _selection_sizes(confidence[order]), ~right[order]
    deff = steady_design_effect(wrong, codes[order], selected=n)
    classes = np.searchsorted(np.sort(np.unique(codes[order], return_index=True)[1]), n)
    size = effective_size(n, classes, deff=deff, level=delta / STARTS)
    weight = 1.0 if horizon is None else horizon / (int(n[-1]) + horizon)
    path = _RiskPath(n, np.cumsum(wrong)[n - 1] / n, size, deff, weight)
    step = _fallback_test(path, precision, delta)
    selected = 0 if step is None else int(path.n[step])
    others = [float(p) for p in GRID[::-1] if (p > precision) == (step is not None)]
    supported = (p for p in others if _fallback_test(path, p, delta) is not None)
    return PrecisionGuarantee(
        precision=float(precision),
        probability=float(probability),
        threshold=None if step is None else float(confidence[order[selected - 1]]),
        coverage=selected / len(right),
        selected=selected,
        right=int(right[order[:selected]].sum()),
        queries=len(right),
        groups=int(codes.max()) + 1,
        design_effect=float(path.deff[-1 if step is None else step]),
        horizon=horizon,
        queries_needed=_queries_needed(path, precision, delta) if step is None else None,
        best=next(supported, 0.0 if step is None else float(precision)),
    )


class _RiskPath(NamedTuple):
    """Error rate of the n most confident queries, for growing n."""

    n: NDArray[np.int64]
    risk: Values
    independent: Values  # effective size: number of independent queries
    deff: Values
    weight: float  # of a query; below 1 if future queries add variance

    @property
    def size(self) -> Values:
        return self.independent * self.weight

    def p_values(self, precision: float, *, times: Values | float = 1.0) -> Values:
        size = self.size * times
        return tail_probability(self.risk * size, size, share=1 - precision)


def _selection_sizes(confidence: Values) -> NDArray[np.int64]:
    """Numbers of queries to select, in a geometric grid; ties are selected together."""
    most = len(confidence)
    powers = GROWTH ** np.arange(np.ceil(np.log(most) / np.log(GROWTH)))
    wanted = np.r_[powers, most].astype(np.int64)
    return np.unique(np.searchsorted(-confidence, -confidence[wanted - 1], side="right"))


def _fallback_test(path: _RiskPath, precision: float, delta: float) -> int | None:
    """Return the last step of the fallback test that rejects too many errors.

    It starts where zero errors would be significant. A guarantee for future queries must hold in
    the long run as well; that test has other start points and may end earlier.
    """
    end: int | None = len(path.n) - 1
    if path.weight < 1:
        end = _fallback_test(path._replace(weight=1.0), precision, delta)
    if end is None:
        return None
    part = delta / STARTS
    fewest = np.log(part) / np.log(precision)
    first = min(int(np.searchsorted(path.n * path.weight, fewest)), len(path.n) - 1)
    starts = [first + (len(path.n) - first) * start // STARTS for start in range(STARTS)]
    p_values = path.p_values(precision).tolist()
    allowed, last = 0.0, None
    for step in range(first, end + 1):
        allowed += part * starts.count(step)
        if p_values[step] <= allowed:
            last = step
        else:
            allowed = 0.0
    return last


def _queries_needed(path: _RiskPath, precision: float, delta: float) -> int | None:
    """Number of queries that would be enough at the same error rates, to two digits."""
    most = int(path.n[-1])
    # half an error more, since the best of many steps is selected below
    half = 0.5 * float(path.risk[-1] > 0)
    path = path._replace(risk=(path.risk * path.size + half) / (path.size + 1))
    reliable = path.n >= max(most / 50, min(most, 15))  # fewer are too noisy

    def is_enough(times: Values) -> Flags:
        return np.asarray(path.p_values(precision, times=times) <= delta / STARTS)

    low, high = np.full(len(path.n), 1.1), np.full(len(path.n), MOST_TIMES)
    reachable = reliable & is_enough(high)
    if not reachable.any():
        return None
    for _ in range(20):
        middle = np.sqrt(low * high)
        low, high = np.where(is_enough(middle), (low, middle), (middle, high))
    needed = float(high[reachable].min()) * most
    digit = int(10 ** max(math.floor(math.log10(needed)) - 1, 0))
    return math.ceil(needed / digit) * digit


def tail_probability(wrong: ArrayLike, n: ArrayLike, *, share: ArrayLike) -> Values:
    r"""Binomial probability of at most `wrong` errors among n, with error rate `share`.

        P(Bin(n, share) <= wrong) = I_(1 - share)(n - wrong, wrong + 1)

    The regularised incomplete beta function I also takes fractional (effective) counts.

    >>> float(tail_probability(0, 3, share=0.5))
    0.125
    """
    from scipy.special import betainc  # type: ignore[import-untyped]  # not for a search

    wrong, n = np.asarray(wrong, float), np.asarray(n, float)
    some = wrong < n
    right = np.where(some, n - wrong, 1.0)  # a 1 only keeps the unused branch defined
    tail = betainc(right, wrong + 1, 1 - np.asarray(share, float))
    return np.asarray(np.where(some, tail, 1.0))


def _within_class(wrong: Flags, groups: NDArray[np.generic]) -> tuple[Values, Values]:
    """Rank of each row in its class, from 1, and the cumulative errors of its class."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    begin = np.repeat(first, np.diff(np.r_[first, len(groups)]))
    place, errors = np.empty(len(groups)), np.empty(len(groups))
    place[order] = np.arange(len(groups)) - begin + 1
    total = np.r_[0.0, np.cumsum(wrong[order])]
    errors[order] = total[1:] - total[begin]
    return place, errors


def design_effect(wrong: Flags, groups: NDArray[np.generic], *, selected: NDArray[np.int64]) -> Values:
    r"""Design effect: variance inflation of the error rate, as errors cluster by class.

        z_c  = wrong_c - risk n_c                           of each of G classes
        deff = [G / (G - 1) sum_c z_c^2 / n^2] / [risk (1 - risk) / (n - 1)],   at least 1

    for the first n rows, for every n in `selected`; cumulative sums avoid a table of n by class.
    1 where it is undefined: no error, nothing right, or one class.
    """
    place, errors = _within_class(wrong, groups)
    at, n = selected - 1, selected.astype(float)
    squares = np.cumsum(2 * place - 1)[at]
    products = np.cumsum(place * errors - (place - 1) * (errors - wrong))[at]
    error_squares = np.cumsum(wrong * (2 * errors - 1))[at]
    classes = np.cumsum(place == 1)[at].astype(float)
    risk = np.cumsum(wrong)[at] / n
    known = (classes > 1) & (risk > 0) & (risk < 1)
    spread = error_squares - 2 * risk * products + risk**2 * squares
    between = classes * spread / np.where(known, classes - 1, 1) / n**2
    alone = np.where(known, risk * (1 - risk) / np.maximum(n - 1, 1), 1.0)
    return np.asarray(np.where(known, np.maximum(between / alone, 1.0), 1.0))


def steady_design_effect(wrong: Flags, groups: NDArray[np.generic], *, selected: NDArray[np.int64]) -> Values:
    r"""Design effect, at least the one expected from all rows.

        expected = 1 + rho (m_n - 1),   m_n = sum_c n_c^2 / n,   rho from all rows

    The estimate from few errors is unstable (1 with none), so the intraclass correlation rho is
    estimated from all rows; m_n is the mean number of classmates among the first n.
    """
    counts = np.r_[selected, len(wrong)].astype(np.int64)
    observed = design_effect(wrong, groups, selected=counts)
    mates = np.cumsum(2 * _within_class(wrong, groups)[0] - 1)[counts - 1] / counts - 1
    rho = (observed[-1] - 1) / mates[-1] if mates[-1] > 0 else 0.0
    return np.asarray(np.maximum(observed, 1 + rho * mates)[:-1])


def effective_size(n: NDArray[np.int64], classes: NDArray[np.int64], *, deff: Values, level: float) -> Values:
    r"""Number of independent queries that n queries of these classes are worth.

        n* = n / deff [t_(n - 1)(1 - level) / t_(classes - 1)(1 - level)]^2

    Korn and Graubard 1998: the t quantiles account for a variance estimated from few classes.
    0 for a single class.
    """
    from scipy.special import stdtrit

    many = classes > 1
    wide = stdtrit(np.where(many, classes - 1, 1), 1 - level)
    narrow = stdtrit(np.where(many, n - 1, 1), 1 - level)
    return np.asarray(np.where(many, n / deff * (narrow / wide) ** 2, 0.0))
