"""Bootstrap intervals: resample queries, or whole groups of them.

Queries of one class tend to be right or wrong together. Resampled one by one they look like more
evidence than they are, and intervals come out too narrow; `groups` draws whole classes instead.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from math import nan
from typing import NamedTuple, TypeVar

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from surefind.errors import InvalidArgument
from surefind.metrics._validation import as_finite, check_tensor
from surefind.validation import as_integers, check_share, check_whole

Name = TypeVar("Name", bound=Hashable)

BLOCK = 2**20  # counts drawn at once: 4 MB, and statistics need about ten times that


@dataclass(frozen=True)
class Estimate:
    """A metric with its bootstrap interval, over queries or over groups of them.

    Attributes:
        value: The metric of all queries.
        low: Lower end of the interval; nan if no resample has a value.
        high: Upper end.
    """

    value: float
    low: float
    high: float


def resample_counts(n: int, resamples: int, *, seed: int, groups: ArrayLike | None = None) -> Tensor:
    """How often each of n queries is drawn when n are drawn with replacement.

    With `groups`, as many groups as there are are drawn with replacement, and every query counts as
    often as its group: rows then differ in how many queries they hold.

    Args:
        n: Number of queries.
        resamples: How many resamples are drawn, B.
        seed: The same seed draws the same resamples.
        groups: Group of each query, such as its class, (n,) integers; drawn as a whole.

    Returns:
        Counts, (B, n) float32.

    >>> resample_counts(5, 2, seed=0).sum(1)
    tensor([5., 5.])
    >>> resample_counts(4, 3, seed=0, groups=torch.tensor([7, 7, 3, 3]))
    tensor([[1., 1., 1., 1.],
            [1., 1., 1., 1.],
            [2., 2., 0., 0.]])
    """
    check_whole("n", n)
    check_whole("resamples", resamples)
    return _draw(*_units(n, groups), resamples, _generator(seed))


def bootstrap(
    statistic: Callable[[Tensor], Tensor],
    n: int,
    *,
    groups: ArrayLike | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """The statistic of n queries and the middle `level` of its resamples (percentile interval).

    Resamples in which the statistic is not defined (nan) are left out; if it is defined in none,
    the bounds are nan. Where resampling itself shifts a statistic (it raises a small calibration
    error), the interval is widened to hold the value.

    Args:
        statistic: Takes counts (B, n), one row per resample, and returns (B,), as every metric
            with an argument `weights` does.
        n: Number of queries.
        groups: Group of each query, such as its class, (n,) integers; drawn as a whole.
        resamples: How many resamples are drawn.
        level: Share of the resamples inside the interval.
        seed: The same seed draws the same resamples.

    >>> values = torch.tensor([0.0, 1.0, 1.0, 1.0])
    >>> bootstrap(lambda weights: weights @ values / weights.sum(1), 4)
    Estimate(value=0.75, low=0.25, high=1.0)
    """
    return bootstrap_all({"it": statistic}, n, groups=groups, resamples=resamples, level=level, seed=seed)["it"]


def bootstrap_all(
    statistics: Mapping[Name, Callable[[Tensor], Tensor]],
    n: int,
    *,
    groups: ArrayLike | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[Name, Estimate]:
    """Several statistics of the same n queries, each as `bootstrap` gives it, drawn only once.

    `groups`, `resamples`, `level` and `seed` are as in `bootstrap`.

    Args:
        statistics: Functions as for `bootstrap`, by name.
        n: Number of queries.

    Returns:
        Each statistic and its interval, by name.
    """
    check_whole("n", n)
    check_whole("resamples", resamples)
    check_share("level", level)
    generator, units = _generator(seed), _units(n, groups)
    values = {name: _evaluate(s, torch.ones(1, n))[0] for name, s in statistics.items()}
    drawn: dict[Name, list[Tensor]] = {name: [] for name in statistics}
    for rows in _block_sizes(n, resamples):
        counts = _draw(*units, rows, generator)
        for name, statistic in statistics.items():
            drawn[name].append(_evaluate(statistic, counts))
    return {name: _estimate(values[name], torch.cat(drawn[name]), level) for name in statistics}


def bootstrap_means(
    values: ArrayLike, *, groups: ArrayLike | None = None, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> list[Estimate]:
    """The mean of each column, all from the same resamples of rows or `groups`.

    An infinite value makes the mean of every resample that draws it infinite.

    `groups`, `resamples`, `level` and `seed` are as in `bootstrap`.

    Args:
        values: m values per query, (n, m).

    Returns:
        The mean of each column and its interval.

    >>> bootstrap_means(torch.tensor([[0.0, 5.0], [1.0, 5.0], [1.0, 5.0], [1.0, 5.0]]))[1]
    Estimate(value=5.0, low=5.0, high=5.0)
    """
    wide = check_tensor("values", values, "(n, m)").detach().double()
    if not (wide > -torch.inf).all():
        raise InvalidArgument("values", expected="numbers", got="nan or minus infinity")
    check_whole("resamples", resamples)
    check_share("level", level)
    generator, n = _generator(seed), len(wide)
    units = _units(n, groups)
    infinite = wide.isinf()
    finite = wide.masked_fill(infinite, 0)
    drawn = []
    for rows in _block_sizes(n, resamples):
        counts = _draw(*units, rows, generator).double()
        means = counts @ finite / counts.sum(1, keepdim=True)
        drawn.append(means.masked_fill_(counts @ infinite.double() > 0, torch.inf))
    pairs = zip(wide.mean(0), torch.cat(drawn).unbind(1), strict=True)
    return [_estimate(value, column, level) for value, column in pairs]


def _units(n: int, groups: ArrayLike | None) -> tuple[int, Tensor | None]:
    """Number of groups, and that of each query, (n,); None: each query is its own."""
    if groups is None:
        return n, None
    found, of_query = as_integers("groups", groups, n, texts=True).unique(return_inverse=True)
    return len(found), of_query


def _draw(number: int, of_query: Tensor | None, rows: int, generator: torch.Generator) -> Tensor:
    counts = torch.empty(rows, number)
    for row in counts:
        drawn = torch.randint(number, (number,), generator=generator)
        row.copy_(torch.bincount(drawn, minlength=number))
    return counts if of_query is None else counts[:, of_query]


def _block_sizes(n: int, resamples: int) -> list[int]:
    rows = max(1, BLOCK // max(1, n))
    return [min(rows, resamples - done) for done in range(0, resamples, rows)]


def _evaluate(statistic: Callable[[Tensor], Tensor], counts: Tensor) -> Tensor:
    values: object = statistic(counts)
    if not isinstance(values, Tensor) or values.shape != (len(counts),):
        raise InvalidArgument(
            "statistic",
            expected=f"a function that returns a tensor of shape ({len(counts)},)",
            got=f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else repr(values),
            fix="hand the counts on: lambda weights: auroc(signal, positive, weights=weights)",
        )
    return values.double()


def _estimate(value: Tensor, drawn: Tensor, level: float) -> Estimate:
    defined = drawn[~drawn.isnan()]
    if len(defined) == 0:
        return Estimate(float(value), nan, nan)
    # Bounds are values that occurred: interpolating towards an infinite one gives nan.
    low = defined.quantile((1 - level) / 2, interpolation="lower")
    high = defined.quantile((1 + level) / 2, interpolation="higher")
    return Estimate(float(value), float(low.minimum(value)), float(high.maximum(value)))


def _generator(seed: int) -> torch.Generator:
    check_whole("seed", seed, smallest=0)
    return torch.Generator().manual_seed(seed)


class PairedTest(NamedTuple):
    """Comparison of two methods on the same queries.

    Attributes:
        difference: Mean of first - second over queries.
        p_value: Its two-sided p-value.
    """

    difference: Estimate
    p_value: float


def paired_test(
    first: ArrayLike,
    second: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> PairedTest:
    r"""Compare per-query values of two methods on the same queries.

    If the methods are alike, first - second is as likely as second - first. So the signs of the
    differences d are flipped at random, and with m the mean,

        p = (1 + #{flips: |m(+-d)| >= |m(d)|}) / (1 + resamples)

    The interval is the bootstrap's. With `groups` the queries of a group are flipped and resampled
    together. Neither knows which method was expected to win.

    `groups`, `resamples`, `level` and `seed` are as in `bootstrap`.

    Args:
        first: Values of one method, (Q,).
        second: Values of the other, (Q,).

    >>> better = paired_test(torch.full((20,), 0.8), torch.full((20,), 0.5))
    >>> better.p_value < 0.01
    True
    """
    a = as_finite("first", first)
    difference = a - as_finite("second", second, len(a))
    estimate = bootstrap_means(difference[:, None], groups=groups, resamples=resamples, level=level, seed=seed)
    rounding = 1e-12 * float(difference.abs().sum())
    number, of_query = _units(len(a), groups)
    if of_query is not None:  # flipping all queries of a group flips their sum
        difference = difference.new_zeros(number).index_add_(0, of_query, difference)
    generator = _generator(seed)
    changed = difference[difference != 0]  # the others have no sign
    observed = changed.sum().abs() - rounding  # sums that are equal but for rounding are equal
    as_large = 0
    for rows in _block_sizes(len(changed), resamples):
        shape = (rows, len(changed))
        signs = torch.randint(2, shape, generator=generator, dtype=torch.int8) * 2 - 1
        as_large += int(((signs.double() @ changed).abs() >= observed).sum())
    return PairedTest(estimate[0], (1 + as_large) / (1 + resamples))
