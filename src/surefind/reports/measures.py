"""From hits and uncertainties to a `Ranking`: every metric with its interval."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from math import sqrt
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from surefind import metrics
from surefind.metrics.bootstrap import Estimate, bootstrap_all
from surefind.reports.result import Ood, Ranking, Signal
from surefind.reports.signals import Signals

COVERAGES = (0.8, 0.9, 0.95)
ERROR_AT = 5  # uncertainty is correlated with the error 1 - AP@5
BY_VARIANCE = ("equal_width", "equal_mass")  # definitions of the calibration error
FOREIGN: dict[str, Callable[..., Any]] = {
    "auroc": metrics.auroc,
    "aupr": metrics.aupr,
    "fpr95": metrics.fpr_at_tpr,
}
RESAMPLES = 1000
MANY = 4000  # queries; of more than these, intervals come from
SOME = 2500  # of them, in classes drawn at random,
LEAST = 100  # classes at least, or all
RESAMPLES_OF_SOME = 200

Statistic = Callable[[Tensor], Tensor]  # of the counts of resamples
Statistics = dict[tuple[str, str], Statistic]  # by group and name
Estimates = dict[tuple[str, str], Estimate]


class Found(NamedTuple):
    """What one ranking gave for the scored queries (Q) and the foreign ones (F)."""

    hits: Tensor  # (Q, K) bool, nearest first
    n_matches: Tensor  # (Q,)
    signals: Signals  # (Q,) each
    foreign: Signals  # (F,) each; empty without foreign queries
    probability: Mapping[str, Tensor]  # (Q,) cross-fitted, by signal; those that could be fitted
    groups: Tensor  # (Q,) classes, or every query its own: what intervals resample
    foreign_groups: Tensor  # (F,) likewise, none of them a group of (Q,)
    difficulty: Tensor | None = None  # (Q,) where the data knows how corrupted an image is

    def average_precision(self, k: int) -> Tensor:
        return metrics.average_precision_at_k(self.hits, self.n_matches, k)

    def sample(self, share: float, *, seed: int) -> Self:
        """Draw the queries of a random share of the groups, of own ones and of foreign ones."""
        generator = torch.Generator().manual_seed(seed)
        own, foreign = (
            _of_some(groups, share, generator) for groups in (self.groups, self.foreign_groups)
        )
        return type(self)(
            self.hits[own],
            self.n_matches[own],
            {name: signal[own] for name, signal in self.signals.items()},
            {name: signal[foreign] for name, signal in self.foreign.items()},
            {name: probability[own] for name, probability in self.probability.items()},
            self.groups[own],
            self.foreign_groups[foreign],
            None if self.difficulty is None else self.difficulty[own],
        )


def measure(found: Found, *, ks: Sequence[int], seed: int = 0) -> Ranking:
    """Measure one ranking, with intervals over its groups of queries."""
    estimates = estimate_all(
        lambda part: _of_own(part, ks), found, groups_of=lambda part: (part.groups,), seed=seed
    )
    foreign: Estimates = {}
    if found.foreign:
        foreign = estimate_all(
            _of_foreign,
            found,
            groups_of=lambda part: (part.groups, part.foreign_groups),
            seed=seed,
        )
    error = 1 - found.average_precision(ERROR_AT)

    def by_k(group: str) -> dict[str, Estimate]:
        return {str(k): estimates[group, str(k)] for k in ks}

    def signal(name: str, values: Tensor) -> Signal:
        get = {what: estimate for (of, what), estimate in estimates.items() if of == name}.get
        return Signal(
            auroc=get("auroc"),
            aupr=get("aupr"),
            aurc=estimates[name, "aurc"],
            e_aurc=estimates[name, "e_aurc"],
            risk_at={str(share): estimates[name, f"risk {share}"] for share in COVERAGES},
            spearman=get("spearman"),
            kendall=metrics.kendall(values, error) if _vary(values, error) else None,
            ece=get("ece"),
            brier=get("brier"),
            nll=get("nll"),
            difficulty=get("difficulty"),
            ood=Ood(*(foreign[name, what] for what in FOREIGN)) if foreign else None,
        )

    return Ranking(
        recall=by_k("recall"),
        mean_ap=by_k("mean_ap"),
        precision=by_k("precision"),
        map_at_r=estimates.get(("map", "r")),
        ece={definition: by_k(definition) for definition in BY_VARIANCE}
        if "query_var" in found.signals
        else {},
        signals={name: signal(name, values) for name, values in found.signals.items()},
    )


def resamples_of(n: int) -> int:
    """Return how often n queries are resampled."""
    return RESAMPLES if n <= MANY else RESAMPLES_OF_SOME


def estimate_all(
    statistics_of: Callable[[Found], Statistics],
    found: Found,
    *,
    groups_of: Callable[[Found], tuple[Tensor, ...]],
    seed: int,
) -> Estimates:
    """Return values from all queries, with 95 % intervals from the same resamples for all.

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
    """Return the share of the groups of each kind that intervals come from.

    >>> share_resampled(8000, 98), share_resampled(50_000, 10_000)
    (1.0, 0.05)
    """
    if queries <= MANY:
        return 1.0
    return min(1.0, max(SOME / queries, *(LEAST / count for count in groups)))


def _recentred(sample: Estimate, value: float, shrink: float) -> Estimate:
    low, high = (value + shrink * (end - sample.value) for end in (sample.low, sample.high))
    return Estimate(value, low, high)


def _of_some(groups: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Return the rows of the queries of a random share of the groups."""
    found, of_query = groups.unique(return_inverse=True)
    taken = torch.zeros(len(found), dtype=torch.bool)
    taken[torch.randperm(len(found), generator=generator)[: round(share * len(found))]] = True
    return taken[of_query].nonzero().squeeze(1)


def _of_own(found: Found, ks: Sequence[int]) -> Statistics:
    statistics: Statistics = {}
    for k in ks:
        precision = found.average_precision(k)
        statistics["recall", str(k)] = _mean(metrics.hit_at_k(found.hits, k))
        statistics["mean_ap", str(k)] = _mean(precision)
        statistics["precision", str(k)] = _mean(metrics.precision_at_k(found.hits, k))
        if "query_var" in found.signals:  # the paper takes it for a confidence
            for definition in BY_VARIANCE:
                statistics[definition, str(k)] = _weighted(
                    metrics.expected_calibration_error,
                    found.signals["query_var"],
                    precision,
                    definition=definition,
                )
    if int(found.n_matches.max()) <= found.hits.shape[1]:
        statistics["map", "r"] = _mean(metrics.average_precision_at_r(found.hits, found.n_matches))
    error = 1 - found.average_precision(ERROR_AT)
    for name in found.signals:
        of_signal = _of_signal(found, name, error)
        statistics |= {(name, what): statistic for what, statistic in of_signal.items()}
    return statistics


def _of_signal(found: Found, name: str, error: Tensor) -> dict[str, Statistic]:
    """How well one signal tells wrong top hits; what is not defined for these queries is absent."""
    signal, right, difficulty = found.signals[name], found.hits[:, 0], found.difficulty
    wrong = ~right

    @lru_cache(maxsize=1)  # several statistics ask for the same resamples in turn
    def profile(weights: Tensor) -> metrics.RiskProfile:
        return metrics.risk_profile(signal, wrong, COVERAGES, weights=weights)

    statistics: dict[str, Statistic] = {
        "aurc": lambda weights: profile(weights).area,
        "e_aurc": lambda weights: profile(weights).excess,
    }
    for number, share in enumerate(COVERAGES):
        statistics[f"risk {share}"] = partial(lambda n, weights: profile(weights).risks[n], number)
    if wrong.any() and right.any():
        statistics["auroc"] = _weighted(metrics.auroc, signal, wrong)
        statistics["aupr"] = _weighted(metrics.aupr, signal, wrong)
    if _vary(signal, error):
        statistics["spearman"] = _weighted(metrics.spearman, signal, error)
    if difficulty is not None and _vary(signal, difficulty):
        statistics["difficulty"] = _weighted(metrics.spearman, signal, difficulty)
    if (probability := found.probability.get(name)) is not None:
        statistics["ece"] = _weighted(
            metrics.expected_calibration_error,
            probability,
            right.double(),
            definition="probability",
        )
        statistics["brier"] = _mean(metrics.brier_score(probability, right))
        statistics["nll"] = _mean(metrics.negative_log_likelihood(probability, right))
    return statistics


def _of_foreign(found: Found) -> Statistics:
    """How well each signal tells foreign queries from one's own; own first, then foreign."""
    statistics: Statistics = {}
    for name, signal in found.signals.items():
        both = torch.cat([signal, found.foreign[name]])
        is_foreign = torch.arange(len(both)) >= len(signal)
        for what, metric in FOREIGN.items():
            statistics[name, what] = _weighted(metric, both, is_foreign)
    return statistics


def _mean(values: Tensor) -> Statistic:
    return lambda weights: (weights.double() @ values.double()) / weights.sum(1).double()


def _weighted(metric: Callable[..., Any], *arguments: Tensor, **options: str) -> Statistic:
    return lambda weights: metric(*arguments, weights=weights, **options)


def _vary(*columns: Tensor) -> bool:
    """Whether none of them is a constant."""
    return all(bool((values != values[0]).any()) for values in columns)
