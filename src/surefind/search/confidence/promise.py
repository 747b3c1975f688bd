"""The confidence from which a hit is called a match, so that a precision can be promised."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.choices import check_choice
from surefind.errors import InvalidArgument
from surefind.metrics.checks import check_number, check_whole
from surefind.search.confidence.binomial import (
    Values,
    classes_within,
    effective_size,
    steady_design_effect,
    tail_probability,
)

By = Literal["query", "class"]
Flags = NDArray[np.bool_]

STARTS = 3  # places where the walk may begin: one unlucky error at the very top does not end it
GROWTH = 1.07  # from one number of selected queries to the next
GRID = np.round(np.arange(0.5, 0.9951, 0.005), 3)  # precisions tried for `Promise.best`
LONGEST = 1000.0  # times the data there are: beyond that, `Promise.enough` is not worth naming


@dataclass(frozen=True)
class Promise:
    """A precision, where it begins, and what it rests on."""

    precision: float  # asked: of the hits called a match, at least this share is right
    probability: float  # that this holds, over calibration sets like this one
    threshold: float | None  # confidence from which a hit is called a match; None: no promise
    coverage: float  # share of the queries at or above it
    selected: int  # queries at or above it
    right: int  # of those
    queries: int
    groups: int  # classes of the queries
    design_effect: float  # queries of one class count as this many times fewer
    by: By  # what is drawn independently
    ahead: int | None  # queries to come for which it holds; None: in the long run
    enough: int | None  # about how many queries would do, when these do not
    best: float  # highest precision these data allow, 0 if none; a hint: chosen after looking


def promise_precision(
    confidence: Values,
    right: Flags,
    groups: NDArray[np.generic],
    *,
    precision: float,
    probability: float = 0.9,
    by: By = "class",
    ahead: int | None = None,
) -> Promise:
    r"""The lowest threshold whose precision holds with the stated probability.

    Learn then test (Angelopoulos et al. 2021). The surest n_1 < n_2 < ... queries are chosen by
    confidence alone, and each H_j: P(wrong | confidence >= t_j) >= 1 - precision is tested with

        p_j = P(Bin(n*_j, 1 - precision) <= risk_j n*_j)

    from the surest downward; n* is n itself by query, and by class the effective size of
    Korn and Graubard. The walk has STARTS starts, each with an equal part of 1 - probability; what
    a start has not lost is added to the next one it reaches (Wiens 2003), so that the chance of
    any wrong rejection stays below 1 - probability. By query that is exact where surer queries are
    wrong no more often; by class it is as good as the effective size.

    That is a promise about the long run. Of `ahead` queries to come, the share that is right also
    varies: their promise counts the Q queries as Q ahead / (Q + ahead), as a difference of two
    shares varies like one of so many.
    """
    check_number("precision", precision, "a share between 0 and 1", lambda x: 0 < x < 1)
    check_number("probability", probability, "a share between 0 and 1", lambda x: 0 < x < 1)
    check_choice("by", by, ("query", "class"))
    if ahead is not None:
        check_whole("ahead", ahead)
    confidence, right, codes = _checked(confidence, right, groups)
    order = np.argsort(-confidence, kind="stable")
    delta = 1 - probability
    ladder = _climb(confidence[order], ~right[order], codes[order], level=delta / STARTS, by=by)
    if ahead is not None:
        ladder = ladder.for_the_next(ahead)
    step = _walk(ladder, precision, delta)
    selected = 0 if step is None else int(ladder.n[step])
    return Promise(
        precision=float(precision),
        probability=float(probability),
        threshold=None if step is None else float(confidence[order[selected - 1]]),
        coverage=selected / len(right),
        selected=selected,
        right=int(right[order[:selected]].sum()),
        queries=len(right),
        groups=int(codes.max()) + 1,
        design_effect=float(ladder.deff[-1 if step is None else step]),
        by=by,
        ahead=ahead,
        enough=_enough(ladder, precision, delta) if step is None else None,
        best=_best(ladder, precision, delta, promised=step is not None),
    )


class _Ladder(NamedTuple):
    """Ever more selected queries, and how wrong they are."""

    n: NDArray[np.int64]
    risk: Values
    independent: Values  # as many queries that are
    deff: Values
    worth: float = 1.0  # of a query, when the noise of those to come counts as well

    @property
    def size(self) -> Values:
        return self.independent * self.worth

    def for_the_next(self, ahead: int) -> "_Ladder":
        return self._replace(worth=ahead / (int(self.n[-1]) + ahead))

    def p_values(self, precision: float, *, times: Values | float = 1.0) -> Values:
        size = self.size * times
        return tail_probability(self.risk * size, size, share=1 - precision)


def _climb(
    confidence: Values, wrong: Flags, codes: NDArray[np.int64], *, level: float, by: By
) -> _Ladder:
    n = _rungs(confidence)
    risk = np.cumsum(wrong)[n - 1] / n
    if by == "query":
        return _Ladder(n, risk, n.astype(float), np.ones(len(n)))
    deff = steady_design_effect(wrong, codes, selected=n)
    size = effective_size(n, classes_within(codes, n), deff=deff, level=level)
    return _Ladder(n, risk, size, deff)


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


def _best(ladder: _Ladder, precision: float, delta: float, *, promised: bool) -> float:
    """The highest precision on the grid that these data allow: above a promised one, else below."""
    others = [float(p) for p in GRID[::-1] if (p > precision) == promised]
    found = (p for p in others if _walk(ladder, p, delta) is not None)
    return next(found, float(precision) if promised else 0.0)


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


def _checked(
    confidence: object, right: object, groups: object
) -> tuple[Values, Flags, NDArray[np.int64]]:
    """The same as arrays, classes as whole numbers from 0."""
    sure, flags, classes = np.asarray(confidence, float), np.asarray(right), np.asarray(groups)
    alike = sure.shape == flags.shape == classes.shape and sure.ndim == 1
    if not alike or not len(sure) or flags.dtype != np.bool_:
        raise InvalidArgument(
            "confidence, right, groups",
            expected="a number, yes or no, and a class for each query, of at least one query",
            got=f"shapes {sure.shape}, {flags.shape} of {flags.dtype}, {classes.shape}",
            fix="pass the same labelled queries in the same order to all three",
        )
    if not ((sure >= 0) & (sure <= 1)).all():
        raise InvalidArgument(
            "confidence",
            expected="numbers from 0 to 1",
            got=f"values from {sure.min():g} to {sure.max():g}",
            fix="a confidence is a probability: fit one on labelled queries first",
        )
    return sure, flags, np.unique(classes, return_inverse=True)[1].astype(np.int64)
