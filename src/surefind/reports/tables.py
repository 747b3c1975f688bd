"""The metrics of an evaluation as tables, for the page and for the terminal."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite, isnan, nan
from typing import NamedTuple

from surefind.metrics.bootstrap import Estimate
from surefind.reports.result import Ladder, Ranking, Signal
from surefind.reports.signals import is_learned, ranking_name, signal_name

MISSING = "\N{EN DASH}"

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


class Column(NamedTuple):
    """One measurement: what it is called, how it is written, which is best."""

    title: str
    show: Show = decimal
    best: Callable[[Iterable[float]], float] | None = None  # max or min

    @property
    def hint(self) -> str:
        """Which way is better, as an arrow."""
        return "↑" if self.best is max else "↓" if self.best is min else ""


class Cell(NamedTuple):
    text: str
    interval: str
    best: bool  # of its column


class Row(NamedTuple):
    name: str
    cells: list[Cell]
    group: str = ""  # rows of one group stand together under its title


class Table(NamedTuple):
    caption: str
    first: str  # title of the column of names
    columns: list[Column]
    rows: list[Row]


def fill(
    caption: str,
    first: str,
    columns: Sequence[Column],
    rows: Mapping[str, Values],
    groups: Mapping[str, str] | None = None,
) -> Table:
    """Make a table; a column without values is left out."""
    kept = [c for c in columns if any(row.get(c.title) is not None for row in rows.values())]
    cells = [_cells(column, [row.get(column.title) for row in rows.values()]) for column in kept]
    return Table(
        caption,
        first,
        kept,
        [
            Row(name, [column[number] for column in cells], (groups or {}).get(name, ""))
            for number, name in enumerate(rows)
        ],
    )


def _cells(column: Column, values: Sequence[Value]) -> list[Cell]:
    numbers = [
        nan if value is None else value.value if isinstance(value, Estimate) else value
        for value in values
    ]
    known = {number for number in numbers if not isnan(number)}
    best = column.best(known) if column.best and len(known) > 1 else None
    return [
        Cell(column.show(number), interval(value, column.show), number == best)
        for value, number in zip(values, numbers, strict=True)
    ]


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


def retrieval_table(rankings: Mapping[str, Ranking]) -> Table:
    rows = {ranking_name(name): retrieval_values(ranking) for name, ranking in rankings.items()}
    caption = "Retrieval for each order of the gallery, in %, with 95 % intervals"
    columns = [Column(title, percent, max) for title in next(iter(rows.values()))]
    return fill(caption, "ranked by", columns, rows)


def signal_tables(ranking: Ranking) -> list[Table]:
    """One table per question; those that the data cannot answer are left out."""
    signals = dict(sorted(ranking.signals.items(), key=lambda item: not is_learned(item[0])))
    rows = {signal_name(name): signal_values(signal) for name, signal in signals.items()}
    groups = {signal_name(n): "learned" if is_learned(n) else "training-free" for n in signals}
    risks = dict.fromkeys(share for signal in signals.values() for share in signal.risk_at)
    questions = {
        "Which top hits are wrong? Every signal orders the queries from sure to unsure": [
            Column("AUROC", best=max),
            Column("AUPR", best=max),
            Column("AURC", best=min),
            Column("E-AURC", best=min),
            *(Column(risk_title(share), percent, min) for share in risks),
            Column("Spearman", best=max),
            Column("Kendall", best=max),
        ],
        "How likely is the top hit right? Signals as cross-fitted probabilities": [
            Column(title, best=min) for title in ("ECE", "Brier", "NLL")
        ],
        "Does the query belong here at all? Own against foreign queries": [
            Column("OOD AUROC", best=max),
            Column("OOD AUPR", best=max),
            Column("FPR95, %", percent, min),
        ],
        "Does it rise with the corruption that each picture is known to have?": [
            Column("rank correlation", best=max)
        ],
    }
    tables = [
        fill(question, "signal", columns, rows, groups) for question, columns in questions.items()
    ]
    return [table for table in tables if table.columns]


def ece_tables(rankings: Mapping[str, Ranking]) -> list[Table]:
    """The calibration error of the query variance by each definition; none without a variance."""
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
        tables.append(fill(caption, "definition", [Column(title) for title in titles], rows))
    return [table for table in tables if table.rows]


def ladder_tables(ladder: Ladder) -> list[Table]:
    """Whether uncertainty rises with corruption, and every step of it."""
    names = [signal_name(name) for name in ladder.rungs[0].signals]
    order: dict[str, Values] = {
        kind: {signal_name(name): value for name, value in by_signal.items()}
        for kind, by_signal in ladder.spearman.items()
    }
    steps: dict[str, Values] = {
        f"{rung.kind} {rung.level}": {
            "R@1, %": rung.recall,
            **{signal_name(name): value for name, value in rung.signals.items()},
        }
        for rung in ladder.rungs
    }
    return [
        fill(
            f"Rank correlation of uncertainty with the level of corruption, mean of "
            f"{ladder.queries:,} queries; 1 is always rising",
            "corruption",
            [Column(name) for name in names],
            order,
        ),
        fill(
            "R@1 and the median of each uncertainty at every level",
            "corruption, level",
            [Column("R@1, %", percent), *(Column(name, short) for name in names)],
            steps,
        ),
    ]
