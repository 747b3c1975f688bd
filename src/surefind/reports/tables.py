"""Tables of metrics for the report page, the terminal and the model card."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from math import isfinite, isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from surefind.encoders.hub import TASK, Measured, markdown
from surefind.errors import InvalidFile
from surefind.metrics.intervals import Estimate
from surefind.reports.index_evaluation import ALL, KNOWN, UNKNOWN, IndexEvaluation
from surefind.reports.result import EvalResult, Ladder, Ranking
from surefind.reports.signals import TRAINING_FREE, is_learned, ranking_name, signal_name
from surefind.text import printable

MISSING = "\N{EN DASH}"

Value = Estimate | float | None
Row = Mapping[str, Any]  # a Value by the key of its column
Show = Callable[[float], str]


def percent(share: float) -> str:
    """Write in percent, without the sign."""
    return f"{100 * share:.1f}" if isfinite(share) else MISSING


def decimal(value: float) -> str:
    return f"{value:.3f}" if isfinite(value) else MISSING


def short(value: float) -> str:
    """Write three digits of a value of any size."""
    return f"{value:.3g}" if isfinite(value) else MISSING


def interval(value: Value, show: Show = decimal) -> str:
    """Write the ends of an interval, if there is one."""
    if not isinstance(value, Estimate) or not (isfinite(value.low) and isfinite(value.high)):
        return ""
    return f"[{show(value.low)}, {show(value.high)}]"


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=select_autoescape(disabled_extensions=("md",), default=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {
    "decimal": decimal,
    "percent": percent,
    "short": short,
    "interval": interval,
    "percent_interval": lambda value: interval(value, percent),
    "thousands": "{:,}".format,
    "signal_name": signal_name,
}


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
    """Rows are name, group, and cells: text, interval, half its width, and if it is the best."""

    caption: str
    first: str  # title of the column of names
    columns: list[MetricColumn]
    rows: list[dict[str, Any]]


def fill(
    caption: str,
    first: str,
    columns: Mapping[str, MetricColumn],
    rows: Mapping[str, Row],
    groups: Mapping[str, str] | None = None,
) -> MetricTable:
    """Return a table without its empty columns; values are by the keys of `columns`."""
    kept = {key: column for key, column in columns.items() if any(row.get(key) is not None for row in rows.values())}
    made: list[dict[str, Any]] = [{"name": name, "group": (groups or {}).get(name, ""), "cells": []} for name in rows]
    for key, column in kept.items():
        values = [row.get(key) for row in rows.values()]
        numbers = [nan if value is None else value.value if isinstance(value, Estimate) else value for value in values]
        known = {number for number in numbers if not isnan(number)}
        best = column.best(known) if column.best and len(known) > 1 else None
        for row, value, number in zip(made, values, numbers, strict=True):
            ends = interval(value, column.show)
            half = ""
            if ends and isinstance(value, Estimate):
                half = f"±{column.show(max(value.high - number, number - value.low))}"
            cell = {"text": column.show(number), "best": number == best}
            row["cells"].append(cell | {"interval": ends, "half": half})
    return MetricTable(caption, first, list(kept.values()), made)


KINDS = {  # tables of signals: columns by the names of metrics
    "Detection of wrong top hits": {
        "auroc": MetricColumn("AUROC", decimal, max),
        "aupr": MetricColumn("AUPR", decimal, max),
        "aurc": MetricColumn("AURC", decimal, min),
        "e_aurc": MetricColumn("E-AURC", decimal, min),
        **{
            f"risk_{share}": MetricColumn(f"risk at {share}\N{NO-BREAK SPACE}%", percent, min) for share in (80, 90, 95)
        },
        "spearman": MetricColumn("Spearman", decimal, max),
    },
    "Calibration of the cross-fitted probability that the top hit is right": {
        "ece": MetricColumn("ECE", decimal, min),
        "brier": MetricColumn("Brier", decimal, min),
        "nll": MetricColumn("NLL", decimal, min),
    },
    "Detection of foreign queries": {
        "ood_auroc": MetricColumn("OOD AUROC", decimal, max),
        "ood_aupr": MetricColumn("OOD AUPR", decimal, max),
        "fpr95": MetricColumn("FPR95, %", percent, min),
    },
    "Correlation with the known corruption of each image": {
        "difficulty": MetricColumn("rank correlation", decimal, max)
    },
}
METRICS = {name: column for columns in KINDS.values() for name, column in columns.items()}


def retrieval_table(rankings: Mapping[str, Ranking]) -> MetricTable:
    rows = {ranking_name(name): ranking.retrieval for name, ranking in rankings.items()}
    caption = "Retrieval by ranking, in %, with 95 % intervals"
    columns = {title: MetricColumn(title, percent, max) for row in rows.values() for title in row}
    return fill(caption, "ranked by", columns, rows)


def signal_summary(ranking: Ranking) -> MetricTable:
    """Return the main metrics of each signal, for the terminal."""
    columns = {name: METRICS[name] for name in ("auroc", "aurc", "ece", "ood_auroc")}
    rows = {signal_name(name): signal for name, signal in ranking.signals.items()}
    return fill("Detection of wrong top hits, and of foreign queries (OOD)", "signal", columns, rows)


def signal_tables(ranking: Ranking) -> list[MetricTable]:
    """Return a table per kind of metric; those without data are left out."""
    signals = sorted(ranking.signals, key=lambda name: not is_learned(name))
    rows = {signal_name(name): ranking.signals[name] for name in signals}
    groups = {signal_name(n): "learned" if is_learned(n) else "training-free" for n in signals}
    tables = [fill(caption, "signal", columns, rows, groups) for caption, columns in KINDS.items()]
    return [table for table in tables if table.columns]


def ece_tables(rankings: Mapping[str, Ranking]) -> list[MetricTable]:
    """Return the calibration error of the query variance by definition; empty without variance."""
    tables = []
    for name, ranking in rankings.items():
        rows: dict[str, Row] = {**ranking.ece}
        if rows and "ece" in ranking.signals["query_var"]:
            rows["probability"] = {"ECE@1": ranking.signals["query_var"]["ece"]}
        caption = f"Calibration error of the query variance, ranked by {ranking_name(name)}"
        columns = {title: MetricColumn(title) for row in rows.values() for title in row}
        tables.append(fill(caption, "definition", columns, rows))
    return [table for table in tables if table.rows]


def ladder_tables(ladder: Ladder) -> list[MetricTable]:
    """Return rank correlations of uncertainty and corruption, and every level of the ladder."""

    def named(by_signal: Mapping[str, float]) -> dict[str, float]:
        return {signal_name(name): value for name, value in by_signal.items()}

    names = {name: MetricColumn(name) for name in named(ladder.rungs[0].signals)}
    order = {kind: named(by_signal) for kind, by_signal in ladder.spearman.items()}
    steps = {f"{rung.kind} {rung.level}": {"R@1, %": rung.recall, **named(rung.signals)} for rung in ladder.rungs}
    medians = {"R@1, %": MetricColumn("R@1, %", percent)}
    medians |= {name: MetricColumn(name, short) for name in names}
    correlation = "Rank correlation of uncertainty with the level of corruption, mean of"
    medians_of = "R@1 and the median of each uncertainty at every level"
    return [
        fill(f"{correlation} {ladder.queries:,} queries", "corruption", names, order),
        fill(medians_of, "corruption, level", medians, steps),
    ]


def verdict_table(evaluation: IndexEvaluation) -> MetricTable:
    """Return the verdicts of queries whose class the index has, and of the others."""
    names = {KNOWN: "in the index", UNKNOWN: "not in the index", ALL: "all"}
    rows = {
        name: asdict(evaluation.verdicts[which]) for which, name in names.items() if evaluation.verdicts[which].queries
    }
    number = "{:,.0f}".format
    columns = {
        **{name: MetricColumn(name, number) for name in ("queries", "match", "unsure", "no_match")},
        "right": MetricColumn("right matches", number),
        "precision": MetricColumn("precision, %", percent),
    }
    caption = f"Guaranteed precision: {percent(evaluation.guarantee.precision)} %"
    if not evaluation.guaranteed:
        caption = f"Requested precision: {percent(evaluation.guarantee.precision)} %, no guarantee"
    return fill(caption, "class", columns, rows)


def index_signal_table(evaluation: IndexEvaluation) -> MetricTable:
    """Return how well each signal of an index detects wrong answers."""
    signals = sorted(evaluation.signals.items(), key=lambda signal: not signal[1].uses_labels)
    rows = {signal_name(name): {**vars(signal)} for name, signal in signals}
    groups = {signal_name(name): "with labels" if signal.uses_labels else "without labels" for name, signal in signals}
    columns = {
        "accuracy": MetricColumn("right, %", percent, max),
        **{name: METRICS[name] for name in ("auroc", "aurc", "ece")},
        "floor": MetricColumn("ECE if perfect"),
        "answered": MetricColumn(
            f"answered at {100 * evaluation.guarantee.precision:g} %", lambda share: f"{percent(share)} %", max
        ),
    }
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
            f"{path} is the report of another model ({about.fingerprint[:12]}, this is {fingerprint[:12]})",
            fix="evaluate this model: surefind evaluate MODEL DATA -o REPORT",
        )
    found: list[tuple[str, str, Estimate]] = []  # name, as the hub lists it, value
    for name, ranking in result.rankings.items():
        by = ranking_name(name)
        kind = by.replace(" ", "_")
        found += [(f"R@{k}, by {by}", f"recall_at_{k}_by_{kind}", ranking.retrieval[f"R@{k}"]) for k in about.ks]
        if "MAP@R" in ranking.retrieval:
            found.append((f"MAP@R, by {by}", f"map_at_r_by_{kind}", ranking.retrieval["MAP@R"]))
    wrong = {name: signal["auroc"] for name, signal in signals.items() if "auroc" in signal}
    free = [name for name in TRAINING_FREE if name in wrong]
    best = max(free, key=lambda name: wrong[name].value, default="query_var")  # in its favour
    for name in dict.fromkeys(("query_var", best)):
        if name in wrong:
            title = f"AUROC of wrong top hits, by {signal_name(name)}"
            found.append((title, f"auroc_error_{name}", wrong[name]))
    if ood := signals.get("query_var", {}).get("ood_auroc"):
        title = f"AUROC of foreign queries, by {signal_name('query_var')}"
        found.append((title, "auroc_foreign_query_var", ood))
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
    card = TEMPLATES.get_template("card.md").render(about=about, found=found, plain=markdown)
    return Measured(results, card.rstrip("\n"))
