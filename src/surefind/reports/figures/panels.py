"""What all figures share: panels of one width, the same type sizes, numbers written one way."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from surefind.metrics.bootstrap import Estimate
from surefind.reports.figures.palette import GREY, INK, PALE, SERIES

_DASHES, _MARKERS = ("-", "--", "-.", ":"), ("o", "s", "^", "D", "v")
WIDTH = 8.0  # inches; shown 700 pixels wide, the small type is still 10 pixels high
LARGE, TEXT, SMALL = 10, 9, 8  # points


def panels(
    rows: int, columns: int, *, height: float, title: str = ""
) -> tuple[Figure, NDArray[Any]]:
    """A figure and its axes, (rows, columns), with quiet frames and grids."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes: NDArray[Any] = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.spines[["left", "bottom"]].set_color(GREY)
        axis.tick_params(labelsize=SMALL, color=GREY, labelcolor=INK)
        axis.grid(color=PALE, linewidth=0.6)
        axis.set_axisbelow(True)
    if title:
        figure.suptitle(title, fontsize=LARGE, x=0.01, ha="left", color=INK)
    return figure, axes


def caption(axis: Axes, title: str, *, x: str = "", y: str = "") -> None:
    """Title and labels of one panel."""
    axis.set_title(title, fontsize=TEXT, loc="left", color=INK)
    axis.set_xlabel(x, fontsize=TEXT, color=INK)
    axis.set_ylabel(y, fontsize=TEXT, color=INK)


def key(axis: Axes, **where: Any) -> None:
    """The legend of one panel, legible above curves."""
    look: dict[str, Any] = {"framealpha": 0.8, "edgecolor": "none", "alignment": "left"}
    axis.legend(fontsize=SMALL, title_fontsize=SMALL, **look, **where)


def side_key(figure: Figure) -> None:
    """The legend of a figure, beside its panels."""
    figure.legend(fontsize=SMALL, frameon=False, loc="outside right upper", labelspacing=0.8)


def lower_key(figure: Figure, curves: Sequence[Artist], names: Sequence[str]) -> None:
    """The legend of a figure, beneath its panels, in at most four columns."""
    columns = min(len(names), 4)
    figure.legend(
        curves, names, loc="outside lower center", ncols=columns, fontsize=SMALL, frameon=False
    )


def series_styles(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Colour, dash and marker of each curve; the same name looks the same.

    >>> series_styles(["TripReg", "Bayes", "TripReg"])["Bayes"]["marker"]
    's'
    """
    return {
        name: {
            "color": SERIES[number % len(SERIES)],
            "linestyle": _DASHES[number % len(_DASHES)],
            "marker": _MARKERS[number % len(_MARKERS)],
        }
        for number, name in enumerate(dict.fromkeys(names))
    }


def blank(axes: NDArray[Any], used: int) -> None:
    """Hide the panels beyond the first `used`."""
    for axis in axes.flat[used:]:
        axis.set_axis_off()


def interval(estimate: Estimate) -> str:
    """A number with its interval.

    >>> interval(Estimate(0.7, 0.65, 0.74))
    '0.700 [0.650, 0.740]'
    """
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def shortened(text: str, letters: int) -> str:
    """So that it fits.

    >>> shortened("northern flicker", 9)
    'northern…'
    """
    return text if len(text) <= letters else text[: letters - 1] + "…"


def spans_decades(values: NDArray[np.float64]) -> bool:
    """Whether a logarithmic axis shows more: all positive, the largest 30 times the smallest."""
    return bool(values.min() > 0 and values.max() > 30 * values.min())
