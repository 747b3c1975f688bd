"""Write the figures of one report, or of several, by their names."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from surefind.files import make_writable
from surefind.reports.figures.evaluation import (
    compare_calibration,
    compare_ood,
    draw_calibration,
    draw_ladder,
    draw_ood,
    draw_risk_coverage,
)
from surefind.reports.figures.examples import (
    SELECTIONS,
    draw_extremes,
    draw_own_and_foreign,
    draw_pairs,
    draw_selection,
)
from surefind.reports.figures.style import NothingToDraw, save
from surefind.reports.result import Report

OF_ONE: dict[str, Callable[..., Figure]] = {  # (result, queries, *, ranking)
    "calibration": draw_calibration,
    "risk-coverage": draw_risk_coverage,
    "ood": draw_ood,
    "ladder": draw_ladder,
    **{which: partial(draw_selection, which=which) for which in SELECTIONS},
    "extremes": draw_extremes,
    "pairs": draw_pairs,
}
OF_SEVERAL: dict[str, Callable[..., Figure]] = {  # (reports, *, ranking)
    "calibration": compare_calibration,
    "ood": compare_ood,
    "own-and-foreign": draw_own_and_foreign,
}
DRAWINGS = (*OF_ONE, "own-and-foreign")


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
        if name not in OF_ONE or (len(reports) > 1 and name in OF_SEVERAL):
            figures = {name: partial(OF_SEVERAL[name], reports)}
        else:
            figures = {
                f"{label}/{name}" if len(reports) > 1 else name: partial(OF_ONE[name], *report)
                for label, *report in reports
            }
        for stem, draw in figures.items():
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
