"""Intervals for everything at once; for very many queries, from a sample of them."""

from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor

from surefind.metrics.bootstrap import Estimate, bootstrap_all
from surefind.reports.found import Found

RESAMPLES = 1000
MANY = 4000  # queries; of more than these, intervals come from
SOME = 2500  # drawn at random
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
    count: Callable[[Found], int],
    seed: int,
) -> Estimates:
    """Values from all queries, with 95 % intervals from the same resamples for every statistic.

    Of n > 4000 queries, m = 2500 are resampled: what those deviate from their own value, times
    sqrt(m / n), is the interval around the value of all. Resampling 60,000 would take longer
    than searching for them. `count` says how many queries the statistics are about.
    """
    statistics, n = statistics_of(found), count(found)
    if n <= MANY:
        return bootstrap_all(statistics, n, resamples=resamples_of(n), seed=seed)
    part = found.sample(SOME / n, seed=seed)
    of_part, m = statistics_of(part), count(part)
    if of_part.keys() != statistics.keys():  # not defined for the sample: too rare an event
        return bootstrap_all(statistics, n, resamples=resamples_of(n), seed=seed)
    around = bootstrap_all(of_part, m, resamples=resamples_of(n), seed=seed)
    once = torch.ones(1, n)
    return {
        name: _recentred(around[name], float(statistic(once)), sqrt(m / n))
        for name, statistic in statistics.items()
    }


def _recentred(sample: Estimate, value: float, shrink: float) -> Estimate:
    low, high = (value + shrink * (end - sample.value) for end in (sample.low, sample.high))
    return Estimate(value, low, high)
