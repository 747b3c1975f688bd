"""A report as figures take it."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from surefind.errors import InvalidFile
from surefind.reports.queries import QueryTable
from surefind.reports.result import EvalResult


class Report(NamedTuple):
    """What `surefind evaluate` found, and the name it has in figures: NAME or GROUP/NAME."""

    label: str
    result: EvalResult
    queries: QueryTable


def read_report(folder: Path, *, label: str = "") -> Report:
    """What `surefind evaluate` wrote there; unless given, the label is the model's name."""
    for table in ("queries.parquet", "queries.csv"):
        if (folder / table).is_file() and (folder / "results.json").is_file():
            result = EvalResult.read(folder / "results.json")
            return Report(label or result.about.model, result, QueryTable.read(folder / table))
    raise InvalidFile(
        f"{folder} is no report: it needs results.json and queries.csv or queries.parquet",
        fix="name the folder that surefind evaluate made",
    )


def grouped(reports: Iterable[Report]) -> dict[str, list[Report]]:
    """Reports by the group of their labels, without it in the label.

    >>> found = grouped([Report("R50/TripReg", None, None), Report("R50/Bayes", None, None)])
    >>> {group: [report.label for report in some] for group, some in found.items()}
    {'R50': ['TripReg', 'Bayes']}
    """
    groups: dict[str, list[Report]] = {}
    for report in reports:
        group, _, name = report.label.rpartition("/")
        groups.setdefault(group, []).append(report._replace(label=name))
    return groups
