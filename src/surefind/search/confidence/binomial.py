"""How surprising so few errors are, when errors come one by one or in classes."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, stdtrit  # type: ignore[import-untyped]

Values = NDArray[np.float64]


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


class InClass(NamedTuple):
    """Where each row stands in its own class, counting from the first row."""

    place: Values  # 1 for the first of its class, 2 for the second, ...
    errors: Values  # of its class, up to and including it

    @classmethod
    def of(cls, wrong: NDArray[np.bool_], groups: NDArray[np.generic]) -> Self:
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        begin = np.repeat(first, np.diff(np.r_[first, len(groups)]))
        place, errors = np.empty(len(groups)), np.empty(len(groups))
        place[order] = np.arange(len(groups)) - begin + 1
        total = np.r_[0.0, np.cumsum(wrong[order])]
        errors[order] = total[1:] - total[begin]
        return cls(place, errors)


def classes_within(groups: NDArray[np.generic], selected: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many classes the first n rows hold, for every n in `selected`."""
    rows = InClass.of(np.zeros(len(groups), bool), groups)
    return np.asarray(np.cumsum(rows.place == 1)[selected - 1], np.int64)


def design_effect(
    wrong: NDArray[np.bool_], groups: NDArray[np.generic], *, selected: NDArray[np.int64]
) -> Values:
    r"""How much more the error rate of the first n rows varies because errors come in classes.

        z_c  = wrong_c - risk n_c                           of each of G classes
        deff = [G / (G - 1) sum_c z_c^2 / n^2] / [risk (1 - risk) / (n - 1)],   at least 1

    for every n in `selected`. The squares grow row by row as a class gains a member, so no table
    of n by class is needed. 1 where it cannot be known: no error, nothing right, one class. With
    a class of its own for each query it is exactly 1.
    """
    place, errors = InClass.of(wrong, groups)
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
    wrong: NDArray[np.bool_], groups: NDArray[np.generic], *, selected: NDArray[np.int64]
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
    mates = np.cumsum(2 * InClass.of(wrong, groups).place - 1)[counts - 1] / counts - 1
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
