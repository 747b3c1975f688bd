"""A report's metrics, for the card of the model that it is about."""

from pathlib import Path

from surefind.encoders.model_card import TASK, Measured, markdown, plain
from surefind.errors import InvalidFile
from surefind.metrics.bootstrap import Estimate
from surefind.reports.result import EvalResult
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
    """Return what a reader of the card wants to know first."""
    from huggingface_hub import EvalResult as HubResult

    about, ranking = result.about, result.rankings[MAIN]
    found: list[tuple[str, str, Estimate]] = []  # name, as the hub lists it, value
    for name, one in result.rankings.items():
        by = ranking_name(name)
        kind = by.replace(" ", "_")
        found += [
            (f"R@{k}, by {by}", f"recall_at_{k}_by_{kind}", one.recall[str(k)]) for k in about.ks
        ]
        if one.map_at_r is not None:
            found.append((f"MAP@R, by {by}", f"map_at_r_by_{kind}", one.map_at_r))
    wrong = {
        name: signal.auroc for name, signal in ranking.signals.items() if signal.auroc is not None
    }
    free = [name for name in TRAINING_FREE if name in wrong]
    best = max(free, key=lambda name: wrong[name].value, default=LEARNED)  # in its favour
    for name in dict.fromkeys((LEARNED, best)):
        if name in wrong:
            by = signal_name(name)
            found.append((f"AUROC of wrong top hits, by {by}", f"auroc_error_{name}", wrong[name]))
    learned = ranking.signals.get(LEARNED)
    if learned is not None and learned.ood is not None:
        by = f"AUROC of foreign queries, by {signal_name(LEARNED)}"
        found.append((by, "auroc_foreign_query_var", learned.ood.auroc))
    matches = f"{about.classes:,} classes" if about.classes else "matches by position"
    resampled = "classes" if about.resampled_classes else "queries"
    lines = (
        f"Measured on {markdown(about.data_name)} ({markdown(about.part)}): {about.queries:,} "
        f"queries, {about.gallery:,} images searched, {matches}; {markdown(about.protocol)}.",
        "",
        f"| metric | value (95 % interval over {resampled}) |",
        "|---|---|",
        *(
            f"| {markdown(name)} | {value.value:.3f} ({value.low:.3f} to {value.high:.3f}) |"
            for name, _, value in found
        ),
        "",
        "The intervals do not cover chance in training. By `surefind evaluate` "
        f"{markdown(about.versions.get('surefind', ''))}, {markdown(about.date[:10])}.",
    )
    results = [
        HubResult(
            task_type=TASK,
            dataset_type=plain(about.data_name),
            dataset_name=plain(about.data_name),
            dataset_split=plain(about.part),
            metric_type=kind,
            metric_name=name,
            metric_value=round(value.value, 4),
        )
        for name, kind, value in found
    ]
    return Measured(results, "\n".join(lines))
