"""Every drawing of a report by its name."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from surefind.choices import check_choice
from surefind.errors import InvalidFile
from surefind.files import make_writable
from surefind.reports.figures.calibration import draw_calibration
from surefind.reports.figures.gallery import draw_gallery
from surefind.reports.figures.ladder import draw_ladder
from surefind.reports.figures.missing import NothingToDraw
from surefind.reports.figures.ood import draw_ood
from surefind.reports.figures.risk_coverage import draw_risk_coverage
from surefind.reports.figures.saving import save
from surefind.reports.figures.selection import SELECTIONS
from surefind.reports.queries import QueryTable
from surefind.reports.result import EvalResult

TITLES = {
    "surest": "The surest queries, and what was found for them",
    "vaguest": "The vaguest queries, and what was found for them",
    "confident-but-wrong": "The surest queries with a wrong top hit",
}


def draw_selection(
    result: EvalResult, queries: QueryTable, *, which: str, ranking: str = "means"
) -> Figure:
    """The gallery of one of the `SELECTIONS`."""
    check_choice("which", which, tuple(SELECTIONS))
    rows = SELECTIONS[which](queries, ranking=ranking)
    return draw_gallery(result, queries, rows=rows, title=TITLES[which], ranking=ranking)


DRAWINGS: dict[str, Callable[..., Figure]] = {  # (result, queries, *, ranking)
    "calibration": draw_calibration,
    "risk-coverage": draw_risk_coverage,
    "ood": draw_ood,
    "ladder": draw_ladder,
    **{which: partial(draw_selection, which=which) for which in SELECTIONS},
}


def draw_all(
    result: EvalResult, queries: QueryTable, folder: Path, *, ranking: str = "means"
) -> dict[str, str]:
    """Every drawing as a PNG of its name in the folder; returns what was left out, and why."""
    make_writable(folder)
    left_out = {}
    for name, draw in DRAWINGS.items():
        try:
            save(draw(result, queries, ranking=ranking), folder / f"{name}.png")
        except NothingToDraw as nothing:
            left_out[name] = nothing.problem
    return left_out


def read_report(folder: Path) -> tuple[EvalResult, QueryTable]:
    """What `surefind evaluate` wrote there."""
    for table in ("queries.parquet", "queries.csv"):
        if (folder / table).is_file() and (folder / "results.json").is_file():
            return EvalResult.read(folder / "results.json"), QueryTable.read(folder / table)
    raise InvalidFile(
        f"{folder} is no report: it needs results.json and queries.csv or queries.parquet",
        fix="name the folder that surefind evaluate made",
    )
