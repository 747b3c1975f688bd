"""The figures of the page, each with how to read it."""

from collections.abc import Callable
from typing import NamedTuple

from matplotlib.figure import Figure

from surefind.reports.figures.calibration import draw_calibration
from surefind.reports.figures.ladder import draw_ladder
from surefind.reports.figures.missing import NothingToDraw
from surefind.reports.figures.ood import draw_ood
from surefind.reports.figures.risk_coverage import draw_risk_coverage
from surefind.reports.figures.saving import to_svg
from surefind.reports.html.thumbnails import data_uri
from surefind.reports.queries import QueryTable
from surefind.reports.result import EvalResult


class Drawing(NamedTuple):
    """A figure by its picture and its words."""

    title: str
    uri: str  # a picture has its own ids and styles, and runs nothing
    caption: str


_DRAW: dict[str, Callable[[EvalResult, QueryTable], Figure]] = {
    "risk_coverage": draw_risk_coverage,
    "calibration": draw_calibration,
    "ood": draw_ood,
    "ladder": draw_ladder,
}
_WORDS = {
    "risk_coverage": (
        "What is gained by answering fewer queries",
        "From right to left, the least sure queries are left unanswered. A useful signal makes the "
        "curve fall towards the oracle, the best possible order; at the level of the random order, "
        "leaving queries out by it helps no more than chance.",
    ),
    "calibration": (
        "Calibration",
        "Left, queries in ten groups by their uncertainty, the surest on the right; right, in ten "
        "groups by the probability they were given. On the diagonal (perfectly calibrated), "
        "80 % means right in 80 % of the cases; below it too much is claimed, above it too little.",
    ),
    "ood": (
        "In-catalogue and foreign queries",
        "How each uncertainty is spread over queries that belong to the gallery and over queries "
        "that do not. The less the two overlap, the better foreign queries can be turned away.",
    ),
    "ladder": (
        "Does uncertainty rise when pictures get worse?",
        "The same queries, damaged step by step; level 0 is the clean picture. As R@1 falls, an "
        "uncertainty that knows about picture quality should rise.",
    ),
}


def draw(result: EvalResult, queries: QueryTable) -> dict[str, str]:
    """Every figure for which there are numbers, as SVG."""
    found: dict[str, str] = {}
    for name, figure in _DRAW.items():
        try:
            found[name] = to_svg(figure(result, queries))
        except NothingToDraw:
            continue
    return found


def drawings(figures: dict[str, str]) -> list[Drawing]:
    """With words; a figure that has none is shown by its name."""
    return [_drawing(name, svg) for name, svg in figures.items()]


def _drawing(name: str, svg: str) -> Drawing:
    title, caption = _WORDS.get(name, (name, ""))
    return Drawing(title, data_uri("image/svg+xml", svg.encode()), caption)
