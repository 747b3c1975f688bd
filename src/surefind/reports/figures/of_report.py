"""Every drawing of one report, or of several, by its name."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from surefind.files import make_writable
from surefind.reports.figures.calibration import compare_calibration, draw_calibration
from surefind.reports.figures.gallery import (
    draw_extremes,
    draw_gallery,
    draw_own_and_foreign,
    draw_pairs,
)
from surefind.reports.figures.ladder import draw_ladder
from surefind.reports.figures.missing import NothingToDraw
from surefind.reports.figures.ood import compare_ood, draw_ood
from surefind.reports.figures.report import Report
from surefind.reports.figures.risk_coverage import draw_risk_coverage
from surefind.reports.figures.saving import save
from surefind.reports.figures.selection import SELECTIONS
from surefind.reports.queries import QueryTable
from surefind.reports.result import EvalResult

TITLES = {
    "surest": "The surest queries, and what was found for them",
    "least-sure": "The least sure queries, and what was found for them",
    "confident-but-wrong": "The surest queries with a wrong top hit",
}


def draw_selection(
    result: EvalResult, queries: QueryTable, *, which: str, ranking: str = "means"
) -> Figure:
    """The gallery of one of the `SELECTIONS`."""
    rows = SELECTIONS[which](queries, ranking=ranking)
    return draw_gallery(result, queries, rows=rows, title=TITLES[which], ranking=ranking)


def _draw_own_and_foreign(result: EvalResult, queries: QueryTable, *, ranking: str) -> Figure:
    return draw_own_and_foreign([Report(result.about.model, result, queries)], ranking=ranking)


DRAWINGS: dict[str, Callable[..., Figure]] = {  # (result, queries, *, ranking)
    "calibration": draw_calibration,
    "risk-coverage": draw_risk_coverage,
    "ood": draw_ood,
    "ladder": draw_ladder,
    **{which: partial(draw_selection, which=which) for which in SELECTIONS},
    "extremes": draw_extremes,
    "pairs": draw_pairs,
    "own-and-foreign": _draw_own_and_foreign,
}
COMPARISONS: dict[str, Callable[..., Figure]] = {  # (reports, *, ranking)
    "calibration": compare_calibration,
    "ood": compare_ood,
    "own-and-foreign": draw_own_and_foreign,
}


class Written(NamedTuple):
    """Files that were drawn; figures that were left out, and why."""

    files: list[Path]
    left_out: dict[str, str]


def write_figures(
    names: Sequence[str],
    reports: Sequence[Report],
    folder: Path,
    *,
    ranking: str = "means",
    ending: str = "png",
    lenient: bool = False,
) -> Written:
    """Draw each name into `folder/NAME.ending`.

    Of several reports, what compares them is one figure; of anything else each report has its own
    in `folder/LABEL/`.

    Raises:
        NothingToDraw: the report lacks what a figure needs. If `lenient`, it is left out instead.
    """
    written = Written([], {})
    for name in names:
        for stem, draw in _drawings(name, reports):
            path = folder / f"{stem}.{ending}"
            try:
                figure = draw(ranking=ranking)
            except NothingToDraw as nothing:
                if not lenient:
                    raise
                written.left_out[stem] = nothing.problem
                continue
            make_writable(path.parent)
            save(figure, path)
            written.files.append(path)
    return written


def _drawings(name: str, reports: Sequence[Report]) -> Iterator[tuple[str, Callable[..., Figure]]]:
    """What is drawn for a name, by the file without its ending."""
    if len(reports) > 1 and name in COMPARISONS:
        yield name, partial(COMPARISONS[name], reports)
        return
    for label, result, queries in reports:
        stem = name if len(reports) == 1 else f"{label}/{name}"
        yield stem, partial(DRAWINGS[name], result, queries)
