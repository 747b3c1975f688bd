"""A report's metrics, for the card of the model that it is about."""

from pathlib import Path

from surefind.encoders.measured import Measured, Metric
from surefind.errors import InvalidFile
from surefind.metrics.bootstrap import Estimate
from surefind.reports.result import EvalResult, Ranking
from surefind.reports.signals import TRAINING_FREE, ranking_name, signal_name

MAIN = "means"  # the ranking whose signals are told; every model has it
LEARNED = "query_var"


def read_measured(report: Path, *, fingerprint: str) -> Measured:
    """Of a folder of `surefind evaluate`, or its results.json; it must be of that very model."""
    path = report / "results.json" if report.is_dir() else report
    result = EvalResult.read(path)
    if result.about.fingerprint != fingerprint:
        raise InvalidFile(
            f"{path} is the report of another model ({result.about.fingerprint[:12]}, "
            f"this is {fingerprint[:12]})",
            fix="evaluate this model: surefind evaluate MODEL DATA -o REPORT",
        )
    return measured(result)


def measured(result: EvalResult) -> Measured:
    """What a reader of the card wants to know first."""
    about, ranking = result.about, result.rankings[MAIN]
    learned = ranking.signals.get(LEARNED)
    return Measured(
        data=about.data_name,
        part=about.part,
        protocol=about.protocol,
        queries=about.queries,
        gallery=about.gallery,
        classes=about.classes,
        retrieval=tuple(
            metric
            for name, found in result.rankings.items()
            for metric in _retrieval(found, ranking_name(name), about.ks)
        ),
        learned=_error_auroc(ranking, LEARNED),
        free=_best_free(ranking),
        foreign=None
        if learned is None or learned.ood is None
        else _metric(
            f"AUROC of foreign queries, by {signal_name(LEARNED)}",
            "auroc_foreign_query_var",
            learned.ood.auroc,
        ),
        resampled="classes" if about.resampled_classes else "queries",
        version=about.versions.get("surefind", ""),
        date=about.date,
    )


def _retrieval(ranking: Ranking, by: str, ks: tuple[int, ...]) -> list[Metric]:
    kind = by.replace(" ", "_")
    found = [
        _metric(f"R@{k}, by {by}", f"recall_at_{k}_by_{kind}", ranking.recall[str(k)]) for k in ks
    ]
    if ranking.map_at_r is not None:
        found.append(_metric(f"MAP@R, by {by}", f"map_at_r_by_{kind}", ranking.map_at_r))
    return found


def _best_free(ranking: Ranking) -> Metric | None:
    """The best on these very queries: in its favour."""
    found = [_error_auroc(ranking, name) for name in TRAINING_FREE]
    return max((metric for metric in found if metric), key=lambda m: m.value, default=None)


def _error_auroc(ranking: Ranking, name: str) -> Metric | None:
    signal = ranking.signals.get(name)
    if signal is None or signal.auroc is None:
        return None
    return _metric(
        f"AUROC of wrong top hits, by {signal_name(name)}", f"auroc_error_{name}", signal.auroc
    )


def _metric(name: str, kind: str, found: Estimate) -> Metric:
    return Metric(name, kind, found.value, found.low, found.high)
