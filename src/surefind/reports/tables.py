"""Tables of metrics for the report page, the terminal and the model card."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite, isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

from surefind.encoders.hub import TASK, Measured, markdown
from surefind.errors import InvalidFile
from surefind.metrics.intervals import Estimate
from surefind.reports.index_evaluation import ALL, KNOWN, UNKNOWN, IndexEvaluation
from surefind.reports.result import EvalResult, Ladder, Ranking, Signal
from surefind.reports.signals import TRAINING_FREE, is_learned, ranking_name, signal_name
from surefind.text import printable

MISSING = "\N{EN DASH}"
LOWER_IS_BETTER = ("AURC", "E-AURC", "ECE", "Brier", "NLL")

Value = Estimate | float | None
Values = dict[str, Value]  # by the title of their column
Show = Callable[[float], str]


def percent(share: float) -> str:
    """Write in percent, without the sign.

    >>> percent(0.5941)
    '59.4'
    """
    return f"{100 * share:.1f}" if isfinite(share) else MISSING


def decimal(value: float) -> str:
    return f"{value:.3f}" if isfinite(value) else MISSING


def short(value: float) -> str:
    """Write three digits of a value of any size.

    >>> short(0.000012345), short(1.5)
    ('1.23e-05', '1.5')
    """
    return f"{value:.3g}" if isfinite(value) else MISSING


def interval(value: Value, show: Show = decimal) -> str:
    """Write the ends of an interval, if there is one.

    >>> interval(Estimate(0.5941, 0.576, 0.612), percent)
    '[57.6, 61.2]'
    """
    if not isinstance(value, Estimate) or not (isfinite(value.low) and isfinite(value.high)):
        return ""
    return f"[{show(value.low)}, {show(value.high)}]"


class MetricColumn(NamedTuple):
    """Title, format and best value of a metric."""

    title: str
    show: Show = decimal
    best: Callable[[Iterable[float]], float] | None = None  # max or min

    @property
    def hint(self) -> str:
        """Arrow towards better values."""
        return "↑" if self.best is max else "↓" if self.best is min else ""


class MetricTable(NamedTuple):
    """Rows are name, group, and cells of text, interval and whether it is the best of a column."""

    caption: str
    first: str  # title of the column of names
    columns: list[MetricColumn]
    rows: list[dict[str, Any]]


def fill(
    caption: str,
    first: str,
    columns: Sequence[MetricColumn],
    rows: Mapping[str, Values],
    groups: Mapping[str, str] | None = None,
) -> MetricTable:
    """Return a table without its empty columns."""
    kept = [c for c in columns if any(row.get(c.title) is not None for row in rows.values())]
    made: list[dict[str, Any]] = [
        {"name": name, "group": (groups or {}).get(name, ""), "cells": []} for name in rows
    ]
    for column in kept:
        values = [row.get(column.title) for row in rows.values()]
        numbers = [
            nan if value is None else value.value if isinstance(value, Estimate) else value
            for value in values
        ]
        known = {number for number in numbers if not isnan(number)}
        best = column.best(known) if column.best and len(known) > 1 else None
        for row, value, number in zip(made, values, numbers, strict=True):
            ends = interval(value, column.show)
            cell = {"text": column.show(number), "interval": ends, "best": number == best}
            row["cells"].append(cell)
    return MetricTable(caption, first, kept, made)


def retrieval_values(ranking: Ranking) -> Values:
    return {
        **{f"R@{k}": value for k, value in ranking.recall.items()},
        **{f"mAP@{k}": value for k, value in ranking.mean_ap.items()},
        **{f"P@{k}": value for k, value in ranking.precision.items()},
        "MAP@R": ranking.map_at_r,
    }


def signal_values(signal: Signal) -> Values:
    ood = signal.ood
    return {
        "AUROC": signal.auroc,
        "AUPR": signal.aupr,
        "AURC": signal.aurc,
        "E-AURC": signal.e_aurc,
        **{risk_title(share): value for share, value in signal.risk_at.items()},
        "Spearman": signal.spearman,
        "Kendall": signal.kendall,
        "rank correlation": signal.difficulty,
        "ECE": signal.ece,
        "Brier": signal.brier,
        "NLL": signal.nll,
        "OOD AUROC": ood.auroc if ood else None,
        "OOD AUPR": ood.aupr if ood else None,
        "FPR95, %": ood.fpr95 if ood else None,
    }


def risk_title(share: str) -> str:
    return f"risk at {100 * float(share):g}\N{NO-BREAK SPACE}%"


def retrieval_table(rankings: Mapping[str, Ranking]) -> MetricTable:
    rows = {ranking_name(name): retrieval_values(ranking) for name, ranking in rankings.items()}
    caption = "Retrieval by ranking, in %, with 95 % intervals"
    columns = [MetricColumn(title, percent, max) for title in next(iter(rows.values()))]
    return fill(caption, "ranked by", columns, rows)


def signal_tables(ranking: Ranking) -> list[MetricTable]:
    """Return a table per kind of metric; those without data are left out."""
    signals = dict(sorted(ranking.signals.items(), key=lambda item: not is_learned(item[0])))
    rows = {signal_name(name): signal_values(signal) for name, signal in signals.items()}
    groups = {signal_name(n): "learned" if is_learned(n) else "training-free" for n in signals}
    risks = dict.fromkeys(share for signal in signals.values() for share in signal.risk_at)
    wrong = ("AUROC", "AUPR", "AURC", "E-AURC", *map(risk_title, risks), "Spearman", "Kendall")
    probability = "Calibration of the cross-fitted probability that the top hit is right"
    kinds = {
        "Detection of wrong top hits": wrong,
        probability: ("ECE", "Brier", "NLL"),
        "Detection of foreign queries": ("OOD AUROC", "OOD AUPR", "FPR95, %"),
        "Correlation with the known corruption of each image": ("rank correlation",),
    }

    def column(title: str) -> MetricColumn:
        is_rate = title.startswith("risk") or title.endswith("%")
        best = min if is_rate or title in LOWER_IS_BETTER else max
        return MetricColumn(title, percent if is_rate else decimal, best)

    tables = [
        fill(caption, "signal", [column(title) for title in titles], rows, groups)
        for caption, titles in kinds.items()
    ]
    return [table for table in tables if table.columns]


def ece_tables(rankings: Mapping[str, Ranking]) -> list[MetricTable]:
    """Return the calibration error of the query variance by definition; empty without variance."""
    tables = []
    for name, ranking in rankings.items():
        rows: dict[str, Values] = {
            definition: {f"ECE@{k}": value for k, value in by_k.items()}
            for definition, by_k in ranking.ece.items()
        }
        of_query = ranking.signals.get("query_var")
        if rows and of_query and of_query.ece:
            rows.setdefault("probability", {"ECE@1": of_query.ece})
        caption = f"Calibration error of the query variance, ranked by {ranking_name(name)}"
        titles = dict.fromkeys(title for row in rows.values() for title in row)
        tables.append(fill(caption, "definition", [MetricColumn(title) for title in titles], rows))
    return [table for table in tables if table.rows]


def ladder_tables(ladder: Ladder) -> list[MetricTable]:
    """Return rank correlations of uncertainty and corruption, and every level of the ladder."""

    def named(by_signal: Mapping[str, float]) -> Values:
        return {signal_name(name): value for name, value in by_signal.items()}

    names = list(named(ladder.rungs[0].signals))
    order = {kind: named(by_signal) for kind, by_signal in ladder.spearman.items()}
    steps = {
        f"{rung.kind} {rung.level}": {"R@1, %": rung.recall, **named(rung.signals)}
        for rung in ladder.rungs
    }
    caption = "Rank correlation of uncertainty with the level of corruption, mean of"
    medians = [MetricColumn("R@1, %", percent), *(MetricColumn(name, short) for name in names)]
    return [
        fill(
            f"{caption} {ladder.queries:,} queries",
            "corruption",
            [MetricColumn(name) for name in names],
            order,
        ),
        fill(
            "R@1 and the median of each uncertainty at every level",
            "corruption, level",
            medians,
            steps,
        ),
    ]


def verdict_table(evaluation: IndexEvaluation) -> MetricTable:
    """Return the verdicts of queries whose class the index has, and of the others."""
    rows: dict[str, Values] = {}
    names = {KNOWN: "in the index", UNKNOWN: "not in the index", ALL: "all"}
    for which, name in names.items():
        counts = evaluation.verdicts[which]
        if counts.queries:
            rows[name] = {
                "queries": counts.queries,
                **{its: getattr(counts, its) for its in ("match", "unsure", "no_match")},
                "right matches": counts.right,
                "precision, %": counts.precision,
            }
    number = "{:,.0f}".format
    titles = ("queries", "match", "unsure", "no_match", "right matches")
    columns = [MetricColumn(title, number) for title in titles]
    columns.append(MetricColumn("precision, %", percent))
    caption = f"Guaranteed precision: {percent(evaluation.guarantee.precision)} %"
    if not evaluation.guaranteed:
        caption = f"Requested precision: {percent(evaluation.guarantee.precision)} %, no guarantee"
    return fill(caption, "class", columns, rows)


def index_signal_table(evaluation: IndexEvaluation) -> MetricTable:
    """Return how well each signal of an index detects wrong answers."""
    answered = f"answered at {100 * evaluation.guarantee.precision:g} %"
    rows: dict[str, Values] = {}
    groups = {}
    for name, signal in evaluation.signals.items():
        title = signal_name(name)
        groups[title] = "with labels of the index" if signal.uses_labels else "without labels"
        rows[title] = {
            "right, %": signal.accuracy,
            "AUROC": signal.auroc,
            "AURC": signal.aurc,
            "ECE": signal.ece,
            "ECE if perfect": signal.floor,
            answered: signal.answered,
        }
    columns = (
        MetricColumn("right, %", percent, max),
        MetricColumn("AUROC", decimal, max),
        MetricColumn("AURC", decimal, min),
        MetricColumn("ECE", decimal, min),
        MetricColumn("ECE if perfect"),
        MetricColumn(answered, lambda share: f"{percent(share)} %", max),
    )
    return fill("Detection of wrong answers", "signal", columns, rows, groups)


def read_measured(report: Path, *, fingerprint: str) -> Measured:
    """Return the first metrics of a report for the card of the model with this fingerprint.

    `report` is a folder of `surefind evaluate`, or its results.json.
    """
    from huggingface_hub import EvalResult as HubResult

    path = report / "results.json" if report.is_dir() else report
    result = EvalResult.read(path)
    about, signals = result.about, result.rankings["means"].signals
    if about.fingerprint != fingerprint:
        raise InvalidFile(
            f"{path} is the report of another model ({about.fingerprint[:12]}, "
            f"this is {fingerprint[:12]})",
            fix="evaluate this model: surefind evaluate MODEL DATA -o REPORT",
        )
    found: list[tuple[str, str, Estimate]] = []  # name, as the hub lists it, value
    for name, ranking in result.rankings.items():
        by = ranking_name(name)
        kind = by.replace(" ", "_")
        found += [
            (f"R@{k}, by {by}", f"recall_at_{k}_by_{kind}", ranking.recall[str(k)])
            for k in about.ks
        ]
        if ranking.map_at_r is not None:
            found.append((f"MAP@R, by {by}", f"map_at_r_by_{kind}", ranking.map_at_r))
    wrong = {name: signal.auroc for name, signal in signals.items() if signal.auroc is not None}
    free = [name for name in TRAINING_FREE if name in wrong]
    best = max(free, key=lambda name: wrong[name].value, default="query_var")  # in its favour
    for name in dict.fromkeys(("query_var", best)):
        if name in wrong:
            title = f"AUROC of wrong top hits, by {signal_name(name)}"
            found.append((title, f"auroc_error_{name}", wrong[name]))
    if "query_var" in signals and (ood := signals["query_var"].ood) is not None:
        title = f"AUROC of foreign queries, by {signal_name('query_var')}"
        found.append((title, "auroc_foreign_query_var", ood.auroc))
    matches = f"{about.classes:,} classes" if about.classes else "matches by position"
    resampled = "classes" if about.resampled_classes else "queries"
    lines = (
        f"Measured on {markdown(about.data_name)} ({markdown(about.split)}): {about.queries:,} "
        f"queries, {about.gallery:,} images searched, {matches}; {markdown(about.protocol)}.",
        "",
        f"| metric | value (95 % interval over {resampled}) |",
        "|---|---|",
        *(
            f"| {markdown(name)} | {value.value:.3f} ({value.low:.3f} to {value.high:.3f}) |"
            for name, _, value in found
        ),
        "",
        "The intervals do not cover the randomness of training. By `surefind evaluate` "
        f"{markdown(about.versions.get('surefind', ''))}, {markdown(about.date[:10])}.",
    )
    results = [
        HubResult(
            task_type=TASK,
            dataset_type=printable(about.data_name),
            dataset_name=printable(about.data_name),
            dataset_split=printable(about.split),
            metric_type=kind,
            metric_name=name,
            metric_value=round(value.value, 4),
        )
        for name, kind, value in found
    ]
    return Measured(results, "\n".join(lines))
