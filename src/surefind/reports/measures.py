"""Metrics of retrieval and uncertainty with bootstrap intervals."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import product
from math import sqrt
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from surefind import metrics
from surefind.metrics.intervals import Estimate, bootstrap_all
from surefind.reports.result import Ranking
from surefind.reports.signals import Signals

COVERAGES = (0.8, 0.9, 0.95)
ERROR_AT = 5  # uncertainty is correlated with the error 1 - AP@5
RETRIEVAL = "retrieval"  # group of statistics; the others are definitions and signals
BY_VARIANCE = ("equal_width", "equal_mass")  # definitions of the calibration error
FOREIGN: dict[str, Callable[..., Any]] = {
    "ood_auroc": metrics.auroc,
    "ood_aupr": metrics.aupr,
    "fpr95": metrics.fpr_at_tpr,
}
RESAMPLES = 1000
MANY = 4000  # with more queries than these, intervals come from
SOME = 2500  # of them, in classes drawn at random,
LEAST = 100  # classes at least, or all
RESAMPLES_OF_SOME = 200

Statistic = Callable[[Tensor], Tensor]  # of the counts of resamples
Statistics = dict[tuple[str, str], Statistic]  # by group and name
Estimates = dict[tuple[str, str], Estimate]


class Scored(NamedTuple):
    """Hits and signals of the scored queries (Q) and the foreign ones (F) in one ranking."""

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

        def rows_of_some(groups: Tensor) -> Tensor:
            found, of_query = groups.unique(return_inverse=True)
            taken = torch.zeros(len(found), dtype=torch.bool)
            drawn = torch.randperm(len(found), generator=generator)[: round(share * len(found))]
            taken[drawn] = True
            return taken[of_query].nonzero().squeeze(1)

        own, foreign = rows_of_some(self.groups), rows_of_some(self.foreign_groups)
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


def measure(scored: Scored, *, ks: Sequence[int], seed: int = 0) -> Ranking:
    """Return the metrics of one ranking with intervals over groups of queries."""
    found = estimate_all(lambda part: _of_own(part, ks), scored, seed=seed)
    if scored.foreign:
        found |= estimate_all(_of_foreign, scored, with_foreign=True, seed=seed)
    by_group: dict[str, dict[str, Estimate]] = {name: {} for name in scored.signals}
    for (group, name), estimate in found.items():
        by_group.setdefault(group, {})[name] = estimate
    error = 1 - scored.average_precision(ERROR_AT)
    return Ranking(
        retrieval=by_group[RETRIEVAL],
        ece={name: by_group[name] for name in BY_VARIANCE if name in by_group},
        signals={name: by_group[name] for name in scored.signals},
        kendall={
            name: metrics.kendall(values, error) for name, values in scored.signals.items() if _vary(values, error)
        },
    )


def resamples_of(n: int) -> int:
    """Return how often n queries are resampled."""
    return RESAMPLES if n <= MANY else RESAMPLES_OF_SOME


def estimate_all(
    statistics_of: Callable[[Scored], Statistics], scored: Scored, *, with_foreign: bool = False, seed: int
) -> Estimates:
    """Return statistics of all queries with 95 % intervals from common resamples.

    Statistics take a weight of each query, own ones first; whole groups of queries are resampled.
    With n > 4000 queries, a random share of the groups is resampled (about 2500 queries, at least
    100 groups of each kind) and the deviations are scaled by the root of that share.
    """

    def groups_of(scored: Scored) -> tuple[Tensor, ...]:
        return (scored.groups, scored.foreign_groups) if with_foreign else (scored.groups,)

    statistics, kinds = statistics_of(scored), groups_of(scored)
    n = sum(map(len, kinds))
    resample = partial(bootstrap_all, resamples=resamples_of(n), seed=seed)
    share = share_resampled(n, *(len(groups.unique()) for groups in kinds))
    if share < 1:
        part = scored.sample(share, seed=seed)
        of_part, groups = statistics_of(part), torch.cat(groups_of(part))
        if of_part.keys() == statistics.keys():  # otherwise it misses a rare event
            found: Estimates = {}
            for name, around in resample(of_part, len(groups), groups=groups).items():
                value = float(statistics[name](torch.ones(1, n)))
                low, high = (value + sqrt(share) * (end - around.value) for end in (around.low, around.high))
                found[name] = Estimate(value, low, high)
            return found
    return resample(statistics, n, groups=torch.cat(kinds))


def share_resampled(queries: int, *groups: int) -> float:
    """Return the share of the groups of each kind that intervals come from.

    >>> share_resampled(8000, 98), share_resampled(50_000, 10_000)
    (1.0, 0.05)
    """
    if queries <= MANY:
        return 1.0
    return min(1.0, max(SOME / queries, *(LEAST / count for count in groups)))


def _of_own(scored: Scored, ks: Sequence[int]) -> Statistics:
    """Return the statistics that are defined for these queries."""
    ap = {k: scored.average_precision(k) for k in ks}
    statistics: Statistics = {
        **{(RETRIEVAL, f"R@{k}"): _mean(metrics.hit_at_k(scored.hits, k)) for k in ks},
        **{(RETRIEVAL, f"mAP@{k}"): _mean(precision) for k, precision in ap.items()},
        **{(RETRIEVAL, f"P@{k}"): _mean(metrics.precision_at_k(scored.hits, k)) for k in ks},
    }
    if int(scored.n_matches.max()) <= scored.hits.shape[1]:
        at_r = metrics.average_precision_at_r(scored.hits, scored.n_matches)
        statistics[RETRIEVAL, "MAP@R"] = _mean(at_r)
    ece = metrics.expected_calibration_error
    if "query_var" in scored.signals:  # the paper takes it for a confidence
        var = scored.signals["query_var"]
        for definition, (k, precision) in product(BY_VARIANCE, ap.items()):
            error_of_k = weighted(ece, var, precision, definition=definition)
            statistics[definition, f"ECE@{k}"] = error_of_k
    error, right = 1 - scored.average_precision(ERROR_AT), scored.hits[:, 0]
    for name, signal in scored.signals.items():
        statistics |= _of_signal(name, signal, right)
        if _vary(signal, error):
            statistics[name, "spearman"] = weighted(metrics.spearman, signal, error)
        if scored.difficulty is not None and _vary(signal, scored.difficulty):
            statistics[name, "difficulty"] = weighted(metrics.spearman, signal, scored.difficulty)
    for name, probability in scored.probability.items():
        statistics[name, "ece"] = weighted(ece, probability, right.double(), definition="probability")
        statistics[name, "brier"] = _mean(metrics.brier_score(probability, right))
        statistics[name, "nll"] = _mean(metrics.negative_log_likelihood(probability, right))
    return statistics


def _of_signal(name: str, signal: Tensor, right: Tensor) -> Statistics:
    """Return statistics of a signal as a detector of wrong top hits."""
    wrong = ~right

    @lru_cache(maxsize=1)  # several statistics share it
    def profile(weights: Tensor) -> metrics.RiskProfile:
        return metrics.risk_profile(signal, wrong, COVERAGES, weights=weights)

    statistics: Statistics = {
        (name, "aurc"): lambda weights: profile(weights).area,
        (name, "e_aurc"): lambda weights: profile(weights).excess,
    }
    for number, share in enumerate(COVERAGES):
        statistics[name, f"risk_{round(100 * share)}"] = partial(lambda n, weights: profile(weights).risks[n], number)
    if wrong.any() and right.any():
        statistics[name, "auroc"] = weighted(metrics.auroc, signal, wrong)
        statistics[name, "aupr"] = weighted(metrics.aupr, signal, wrong)
    return statistics


def _of_foreign(scored: Scored) -> Statistics:
    """Return statistics of each signal as a detector of foreign queries; weights: own first."""
    statistics: Statistics = {}
    for name, signal in scored.signals.items():
        both = torch.cat([signal, scored.foreign[name]])
        is_foreign = torch.arange(len(both)) >= len(signal)
        for what, metric in FOREIGN.items():
            statistics[name, what] = weighted(metric, both, is_foreign)
    return statistics


def _mean(values: Tensor) -> Statistic:
    return lambda weights: (weights.double() @ values.double()) / weights.sum(1).double()


def weighted(metric: Callable[..., Any], *arguments: Tensor, **options: str) -> Statistic:
    return lambda weights: metric(*arguments, weights=weights, **options)


def _vary(*columns: Tensor) -> bool:
    """Return whether no column is constant."""
    return all(bool((values != values[0]).any()) for values in columns)
