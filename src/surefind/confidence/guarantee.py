"""The confidence from which a hit is called a match, so that a precision can be guaranteed."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, stdtrit  # type: ignore[import-untyped]

Values = NDArray[np.float64]
Flags = NDArray[np.bool_]

STARTS = 3  # places where the walk may begin: one unlucky error at the very top does not end it
GROWTH = 1.07  # from one number of selected queries to the next
GRID = np.round(np.arange(0.5, 0.9951, 0.005), 3)  # precisions tried for `PrecisionGuarantee.best`
LONGEST = (
    1000.0  # times the data there are: beyond that, `PrecisionGuarantee.enough` is not worth naming
)


@dataclass(frozen=True)
class PrecisionGuarantee:
    """A precision, where it begins, and what it rests on."""

    precision: float  # asked: of the hits called a match, at least this share is right
    probability: float  # that this holds, over calibration sets like this one
    threshold: float | None  # confidence from which a hit is called a match; None: no guarantee
    coverage: float  # share of the queries at or above it
    selected: int  # queries at or above it
    right: int  # of those
    queries: int
    groups: int  # classes of the queries
    design_effect: float  # queries of one class count as this many times fewer
    ahead: int | None  # queries to come for which it holds; None: in the long run
    enough: int | None  # about how many queries would do, when these do not
    best: float  # highest precision these data allow, 0 if none; a hint: chosen after looking


def guarantee_precision(
    confidence: Values,
    right: Flags,
    groups: NDArray[np.generic],
    *,
    precision: float,
    probability: float = 0.9,
    ahead: int | None = None,
) -> PrecisionGuarantee:
    r"""The lowest threshold whose precision holds with the stated probability.

    Learn then test (Angelopoulos et al. 2021). The surest n_1 < n_2 < ... queries are chosen by
    confidence alone, and each H_j: P(wrong | confidence >= t_j) >= 1 - precision is tested with

        p_j = P(Bin(n*_j, 1 - precision) <= risk_j n*_j)

    from the surest downward; n* is the effective size of Korn and Graubard, n itself where each
    query is of a class of its own. The walk has STARTS starts, each with an equal part of
    1 - probability; what a start has not lost is added to the next one it reaches (Wiens 2003), so
    that the chance of any wrong rejection stays below 1 - probability. That is exact where each
    query is of a class of its own and surer queries are wrong no more often, else as good as the
    effective size.

    That is a guarantee about the long run. Of `ahead` queries to come, the share that is right also
    varies: their guarantee counts the Q queries as Q ahead / (Q + ahead), as a difference of two
    shares varies like one of so many.
    """
    codes = np.unique(groups, return_inverse=True)[1]
    order = np.argsort(-confidence, kind="stable")
    delta = 1 - probability
    n, wrong = _rungs(confidence[order]), ~right[order]
    deff = steady_design_effect(wrong, codes[order], selected=n)
    classes = classes_within(codes[order], n)
    size = effective_size(n, classes, deff=deff, level=delta / STARTS)
    worth = 1.0 if ahead is None else ahead / (int(n[-1]) + ahead)
    ladder = _Ladder(n, np.cumsum(wrong)[n - 1] / n, size, deff, worth)
    step = _walk(ladder, precision, delta)
    selected = 0 if step is None else int(ladder.n[step])
    return PrecisionGuarantee(
        precision=float(precision),
        probability=float(probability),
        threshold=None if step is None else float(confidence[order[selected - 1]]),
        coverage=selected / len(right),
        selected=selected,
        right=int(right[order[:selected]].sum()),
        queries=len(right),
        groups=int(codes.max()) + 1,
        design_effect=float(ladder.deff[-1 if step is None else step]),
        ahead=ahead,
        enough=_enough(ladder, precision, delta) if step is None else None,
        best=_best(ladder, precision, delta, guaranteed=step is not None),
    )


class _Ladder(NamedTuple):
    """Ever more selected queries, and how wrong they are."""

    n: NDArray[np.int64]
    risk: Values
    independent: Values  # as many queries that are
    deff: Values
    worth: float  # of a query, when the noise of those to come counts as well

    @property
    def size(self) -> Values:
        return self.independent * self.worth

    def p_values(self, precision: float, *, times: Values | float = 1.0) -> Values:
        size = self.size * times
        return tail_probability(self.risk * size, size, share=1 - precision)


def _rungs(confidence: Values) -> NDArray[np.int64]:
    """1, 2, 3, ... then ever larger steps, up to all; equal confidences are selected together."""
    most = len(confidence)
    powers = GROWTH ** np.arange(np.ceil(np.log(most) / np.log(GROWTH)))
    wanted = np.r_[powers, most].astype(np.int64)
    return np.unique(np.searchsorted(-confidence, -confidence[wanted - 1], side="right"))


def _walk(ladder: _Ladder, precision: float, delta: float) -> int | None:
    """The last step at which too many errors are ruled out.

    It begins where no error at all would be enough; of fewer queries only all together are tried.
    What holds for queries to come is to hold in the long run as well: that walk begins elsewhere,
    and may stumble where this one does not.
    """
    end: int | None = len(ladder.n) - 1
    if ladder.worth < 1:
        end = _walk(ladder._replace(worth=1.0), precision, delta)
    if end is None:
        return None
    part = delta / STARTS
    fewest = np.log(part) / np.log(precision)
    first = min(int(np.searchsorted(ladder.n * ladder.worth, fewest)), len(ladder.n) - 1)
    starts = [first + (len(ladder.n) - first) * start // STARTS for start in range(STARTS)]
    p_values = ladder.p_values(precision).tolist()
    allowed, last = 0.0, None
    for step in range(first, end + 1):
        allowed += part * starts.count(step)
        if p_values[step] <= allowed:
            last = step
        else:
            allowed = 0.0
    return last


def _best(ladder: _Ladder, precision: float, delta: float, *, guaranteed: bool) -> float:
    """Return the highest precision on the grid that these data support."""
    others = [float(p) for p in GRID[::-1] if (p > precision) == guaranteed]
    found = (p for p in others if _walk(ladder, p, delta) is not None)
    return next(found, float(precision) if guaranteed else 0.0)


def _enough(ladder: _Ladder, precision: float, delta: float) -> int | None:
    """How many queries would do if more of them were as wrong as these; two digits."""
    most = int(ladder.n[-1])
    # half an error more: of many steps the luckiest is about to be chosen
    half = 0.5 * float(ladder.risk[-1] > 0)
    ladder = ladder._replace(risk=(ladder.risk * ladder.size + half) / (ladder.size + 1))
    telling = ladder.n >= max(most / 50, min(most, 15))  # fewer do not tell how wrong more would be

    def would_do(times: Values) -> Flags:
        return np.asarray(ladder.p_values(precision, times=times) <= delta / STARTS)

    low, high = np.full(len(ladder.n), 1.1), np.full(len(ladder.n), LONGEST)
    reachable = telling & would_do(high)
    if not reachable.any():
        return None
    for _ in range(20):
        middle = np.sqrt(low * high)
        low, high = np.where(would_do(middle), (low, middle), (middle, high))
    needed = float(high[reachable].min()) * most
    digit = int(10 ** max(math.floor(math.log10(needed)) - 1, 0))
    return math.ceil(needed / digit) * digit


def tail_probability(wrong: ArrayLike, n: ArrayLike, *, share: ArrayLike) -> Values:
    r"""Probability of at most this many errors among n, when each is wrong with this share.

        P(Bin(n, share) <= wrong) = I_(1 - share)(n - wrong, wrong + 1)

    The incomplete beta function I also serves counts that are not whole, as effective ones are.

    >>> float(tail_probability(0, 3, share=0.5))
    0.125
    """
    wrong, n = np.asarray(wrong, float), np.asarray(n, float)
    some = wrong < n
    right = np.where(some, n - wrong, 1.0)  # a 1 only keeps the unused branch defined
    tail = betainc(right, wrong + 1, 1 - np.asarray(share, float))
    return np.asarray(np.where(some, tail, 1.0))


def _within_class(wrong: Flags, groups: NDArray[np.generic]) -> tuple[Values, Values]:
    """Rank of each row in its class, from 1; and the errors of its class up to and with it."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    begin = np.repeat(first, np.diff(np.r_[first, len(groups)]))
    place, errors = np.empty(len(groups)), np.empty(len(groups))
    place[order] = np.arange(len(groups)) - begin + 1
    total = np.r_[0.0, np.cumsum(wrong[order])]
    errors[order] = total[1:] - total[begin]
    return place, errors


def classes_within(groups: NDArray[np.generic], selected: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many classes the first n rows hold, for every n in `selected`."""
    new = np.zeros(len(groups), np.int64)
    new[np.unique(groups, return_index=True)[1]] = 1
    return np.asarray(np.cumsum(new)[selected - 1])


def design_effect(
    wrong: Flags, groups: NDArray[np.generic], *, selected: NDArray[np.int64]
) -> Values:
    r"""How much more the error rate of the first n rows varies because errors come in classes.

        z_c  = wrong_c - risk n_c                           of each of G classes
        deff = [G / (G - 1) sum_c z_c^2 / n^2] / [risk (1 - risk) / (n - 1)],   at least 1

    for every n in `selected`. The squares grow row by row as a class gains a member, so no table
    of n by class is needed. 1 where it cannot be known: no error, nothing right, one class. With
    a class of its own for each query it is exactly 1.
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


def steady_design_effect(
    wrong: Flags, groups: NDArray[np.generic], *, selected: NDArray[np.int64]
) -> Values:
    r"""The design effect, at least what all rows together lead one to expect.

        expected = 1 + rho (m_n - 1),   m_n = sum_c n_c^2 / n,   rho from all rows

    Few errors show little of how errors come: with none the estimate is 1. How alike two queries
    of one class are, rho, is therefore taken from all rows, and m_n is how many of a class the
    first n hold. (All rows' own design effect would charge the first few for class-mates that are
    not among them.)
    """
    counts = np.r_[selected, len(wrong)].astype(np.int64)
    seen = design_effect(wrong, groups, selected=counts)
    mates = np.cumsum(2 * _within_class(wrong, groups)[0] - 1)[counts - 1] / counts - 1
    rho = (seen[-1] - 1) / mates[-1] if mates[-1] > 0 else 0.0
    return np.asarray(np.maximum(seen, 1 + rho * mates)[:-1])


def effective_size(
    n: NDArray[np.int64], classes: NDArray[np.int64], *, deff: Values, level: float
) -> Values:
    r"""How many independent queries n queries of so many classes are worth.

        n* = n / deff [t_(n - 1)(1 - level) / t_(classes - 1)(1 - level)]^2

    Korn and Graubard 1998: the t quantiles pay for a variance estimated from few classes. A single
    class says nothing about others: 0.
    """
    many = classes > 1
    wide = stdtrit(np.where(many, classes - 1, 1), 1 - level)
    narrow = stdtrit(np.where(many, n - 1, 1), 1 - level)
    return np.asarray(np.where(many, n / deff * (narrow / wide) ** 2, 0.0))
