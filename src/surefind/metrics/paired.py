"""Is one method better than another on the same queries, or is it luck?"""

from typing import NamedTuple

import torch
from torch import Tensor

from surefind.metrics.bootstrap import BLOCK, Estimate, bootstrap_means
from surefind.metrics.checks import as_finite
from surefind.validation import check_whole


class PairedTest(NamedTuple):
    """The mean of first - second over queries, and how often luck alone does as much."""

    difference: Estimate
    p_value: float


def paired_test(
    first: Tensor,
    second: Tensor,
    *,
    groups: Tensor | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> PairedTest:
    r"""Compare per-query values of two methods on the same queries, (Q,) each.

    If the methods are alike, first - second is as likely as second - first. So the signs of the
    differences d are flipped at random, and with m the mean,

        p = (1 + #{flips: |m(+-d)| >= |m(d)|}) / (1 + resamples)

    The interval is the bootstrap's. With `groups`, (Q,) integers such as classes, the queries of a
    group are flipped and resampled together, since they are right or wrong together. Neither
    knows which method was expected to win.

    >>> better = paired_test(torch.full((20,), 0.8), torch.full((20,), 0.5))
    >>> better.p_value < 0.01
    True
    """
    a = as_finite("first", first)
    difference = a - as_finite("second", second, len(a))
    estimate = bootstrap_means(
        difference[:, None], groups=groups, resamples=resamples, level=level, seed=seed
    )
    rounding = 1e-12 * float(difference.abs().sum())
    return PairedTest(
        estimate[0], _p_value(_sums(difference, groups), resamples, seed, rounding=rounding)
    )


def _sums(difference: Tensor, groups: Tensor | None) -> Tensor:
    """The sum of each group: to flip all its queries is to flip its sum."""
    if groups is None:
        return difference
    found, of_query = groups.unique(return_inverse=True)
    return difference.new_zeros(len(found)).index_add_(0, of_query, difference)


def _p_value(difference: Tensor, resamples: int, seed: int, *, rounding: float) -> float:
    check_whole("resamples", resamples)
    generator = torch.Generator().manual_seed(seed)
    changed = difference[difference != 0]  # the others have no sign
    observed = changed.sum().abs() - rounding  # sums that are equal but for rounding are equal
    rows = max(1, BLOCK // max(1, len(changed)))
    as_large = 0
    for start in range(0, resamples, rows):
        shape = (min(rows, resamples - start), len(changed))
        signs = torch.randint(2, shape, generator=generator, dtype=torch.int8) * 2 - 1
        as_large += int(((signs.double() @ changed).abs() >= observed).sum())
    return (1 + as_large) / (1 + resamples)
