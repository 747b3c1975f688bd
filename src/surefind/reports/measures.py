"""From hits and uncertainties to a `Ranking`: every metric with its interval."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from surefind import metrics
from surefind.metrics.bootstrap import Estimate
from surefind.reports.found import Found
from surefind.reports.intervals import Estimates, Statistics, estimate_all
from surefind.reports.result import Ood, Ranking, Signal

COVERAGES = (0.8, 0.9, 0.95)
ERROR_AT = 5  # uncertainty is correlated with the error 1 - AP@5
BY_VARIANCE = ("equal_width", "equal_mass")  # definitions of the calibration error
FOREIGN: dict[str, Callable[..., Any]] = {
    "auroc": metrics.auroc,
    "aupr": metrics.aupr,
    "fpr95": metrics.fpr_at_tpr,
}


def measure(found: Found, *, ks: Sequence[int], seed: int = 0) -> Ranking:
    """Every metric of one ranking, with intervals over its groups of queries."""
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

    error = _error(found)

    def by_k(group: str) -> dict[str, Estimate]:
        return {str(k): estimates[group, str(k)] for k in ks}

    return Ranking(
        recall=by_k("recall"),
        mean_ap=by_k("mean_ap"),
        precision=by_k("precision"),
        map_at_r=estimates.get(("map", "r")),
        ece={definition: by_k(definition) for definition in BY_VARIANCE if _has_variance(found)},
        signals={name: _signal(found, name, estimates, foreign, error) for name in found.signals},
    )


def _of_own(found: Found, ks: Sequence[int]) -> Statistics:
    statistics = _retrieval(found, ks) | _calibration(found, ks)
    error = _error(found)
    for name in found.signals:
        statistics |= _doubt(found, name, error)
    return statistics


def _retrieval(found: Found, ks: Sequence[int]) -> Statistics:
    statistics: Statistics = {}
    for k in ks:
        statistics["recall", str(k)] = _mean(metrics.hit_at_k(found.hits, k))
        statistics["mean_ap", str(k)] = _mean(_average_precision(found, k))
        statistics["precision", str(k)] = _mean(metrics.precision_at_k(found.hits, k))
    if int(found.n_matches.max()) <= found.hits.shape[1]:
        statistics["map", "r"] = _mean(metrics.average_precision_at_r(found.hits, found.n_matches))
    return statistics


def _calibration(found: Found, ks: Sequence[int]) -> Statistics:
    """What the paper reports: the query variance as if it were a confidence."""
    if not _has_variance(found):
        return {}
    return {
        (definition, str(k)): partial(
            _ece, found.signals["query_var"], _average_precision(found, k), definition
        )
        for definition in BY_VARIANCE
        for k in ks
    }


def _doubt(found: Found, name: str, error: Tensor) -> Statistics:
    """How well one signal tells wrong top hits; what is not defined for these queries is absent."""
    signal, right = found.signals[name], found.hits[:, 0]
    wrong = ~right
    profile = _Last(lambda weights: metrics.risk_profile(signal, wrong, COVERAGES, weights=weights))
    statistics: dict[str, Callable[[Tensor], Tensor]] = {
        "aurc": lambda weights: profile(weights).area,
        "e_aurc": lambda weights: profile(weights).excess,
    }
    for number, share in enumerate(COVERAGES):
        statistics[f"risk {share}"] = partial(_risk, profile, number)
    if wrong.any() and right.any():
        statistics["auroc"] = lambda weights: metrics.auroc(signal, wrong, weights=weights)
        statistics["aupr"] = lambda weights: metrics.aupr(signal, wrong, weights=weights)
    if _varies(signal) and _varies(error):
        statistics["spearman"] = partial(_correlation, signal, error)
    difficulty = found.difficulty
    if difficulty is not None and _varies(signal) and _varies(difficulty):
        statistics["difficulty"] = partial(_correlation, signal, difficulty)
    if name in found.probability:
        probability = found.probability[name]
        statistics["ece"] = partial(_ece, probability, right.double(), "probability")
        statistics["brier"] = _mean(metrics.brier_score(probability, right))
        statistics["nll"] = _mean(metrics.negative_log_likelihood(probability, right))
    return {(name, what): statistic for what, statistic in statistics.items()}


def _of_foreign(found: Found) -> Statistics:
    """How well each signal tells foreign queries from one's own; own first, then foreign."""
    statistics: Statistics = {}
    for name, signal in found.signals.items():
        both = torch.cat([signal, found.foreign[name]])
        strange = torch.arange(len(both)) >= len(signal)
        for what, metric in FOREIGN.items():
            statistics[name, what] = partial(_separation, metric, both, strange)
    return statistics


def _signal(
    found: Found, name: str, estimates: Estimates, foreign: Estimates, error: Tensor
) -> Signal:
    def get(what: str) -> Estimate | None:
        return estimates.get((name, what))

    signal = found.signals[name]
    varies = _varies(signal) and _varies(error)
    return Signal(
        auroc=get("auroc"),
        aupr=get("aupr"),
        aurc=estimates[name, "aurc"],
        e_aurc=estimates[name, "e_aurc"],
        risk_at={str(share): estimates[name, f"risk {share}"] for share in COVERAGES},
        spearman=get("spearman"),
        kendall=metrics.kendall(signal, error) if varies else None,
        ece=get("ece"),
        brier=get("brier"),
        nll=get("nll"),
        difficulty=get("difficulty"),
        ood=Ood(*(foreign[name, what] for what in FOREIGN)) if foreign else None,
    )


def _average_precision(found: Found, k: int) -> Tensor:
    return metrics.average_precision_at_k(found.hits, found.n_matches, k)


def _error(found: Found) -> Tensor:
    return 1 - _average_precision(found, ERROR_AT)


def _has_variance(found: Found) -> bool:
    return "query_var" in found.signals


def _varies(values: Tensor) -> bool:
    return bool((values != values[0]).any())


def _mean(values: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda weights: (weights.double() @ values.double()) / weights.sum(1).double()


def _ece(values: Tensor, outcome: Tensor, definition: str, weights: Tensor) -> Tensor:
    return metrics.expected_calibration_error(
        values, outcome, definition=definition, weights=weights
    )


def _risk(profile: "_Last", number: int, weights: Tensor) -> Tensor:
    return profile(weights).risks[number]


class _Last:
    """Remembers its last answer: several statistics ask for the same resamples in turn."""

    def __init__(self, function: Callable[[Tensor], metrics.RiskProfile]) -> None:
        self.function = function
        self.asked: Tensor | None = None

    def __call__(self, weights: Tensor) -> metrics.RiskProfile:
        if weights is not self.asked:
            self.asked, self.answer = weights, self.function(weights)
        return self.answer


def _correlation(signal: Tensor, other: Tensor, weights: Tensor) -> Tensor:
    return metrics.spearman(signal, other, weights=weights)


def _separation(
    metric: Callable[..., Any], signal: Tensor, strange: Tensor, weights: Tensor
) -> Tensor:
    separated: Tensor = metric(signal, strange, weights=weights)
    return separated
