"""Intervals for everything at once; of very many classes, from a sample of them."""

from collections.abc import Callable
from functools import partial
from math import sqrt

import torch
from torch import Tensor

from surefind.metrics.bootstrap import Estimate, bootstrap_all
from surefind.reports.found import Found

RESAMPLES = 1000
MANY = 4000  # queries; of more than these, intervals come from
SOME = 2500  # of them, in classes drawn at random,
LEAST = 100  # classes at least, or all
RESAMPLES_OF_SOME = 200

Statistics = dict[tuple[str, str], Callable[[Tensor], Tensor]]  # by group and name
Estimates = dict[tuple[str, str], Estimate]


def resamples_of(n: int) -> int:
    """How often n queries are resampled."""
    return RESAMPLES if n <= MANY else RESAMPLES_OF_SOME


def estimate_all(
    statistics_of: Callable[[Found], Statistics],
    found: Found,
    *,
    groups_of: Callable[[Found], tuple[Tensor, ...]],
    seed: int,
) -> Estimates:
    """Values from all queries, with 95 % intervals from the same resamples for every statistic.

    `groups_of` names the group of each query, kind by kind (own, foreign) in the order in which
    the statistics count them; groups are resampled whole. Of n > 4000 queries, those of a random
    share of the groups are resampled, about 2500 queries and of each kind at least 100 groups:
    what they deviate from their own value, times the root of that share, is the interval around
    the value of all. Resampling 60,000 queries would take longer than searching for them.
    """
    statistics, kinds = statistics_of(found), groups_of(found)
    n = sum(map(len, kinds))
    resample = partial(bootstrap_all, resamples=resamples_of(n), seed=seed)
    share = share_resampled(n, *(len(groups.unique()) for groups in kinds))
    if share < 1:
        part = found.sample(share, seed=seed)
        of_part, groups = statistics_of(part), torch.cat(groups_of(part))
        if of_part.keys() == statistics.keys():  # otherwise the sample misses a rare event
            around: Estimates = resample(of_part, len(groups), groups=groups)
            once = torch.ones(1, n)
            return {
                name: _recentred(around[name], float(statistic(once)), sqrt(share))
                for name, statistic in statistics.items()
            }
    return resample(statistics, n, groups=torch.cat(kinds))


def share_resampled(queries: int, *groups: int) -> float:
    """Of the groups of each kind, how many intervals come from.

    >>> share_resampled(8000, 98), share_resampled(50_000, 10_000)
    (1.0, 0.05)
    """
    if queries <= MANY:
        return 1.0
    return min(1.0, max(SOME / queries, *(LEAST / count for count in groups)))


def _recentred(sample: Estimate, value: float, shrink: float) -> Estimate:
    low, high = (value + shrink * (end - sample.value) for end in (sample.low, sample.high))
    return Estimate(value, low, high)
