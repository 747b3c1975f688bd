"""Style of all figures: palette, panels, legends; and saving to files."""

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from surefind.errors import InvalidFile, SurefindError
from surefind.metrics.intervals import Estimate
from surefind.reports.result import QueryTable
from surefind.reports.signals import COSINE, SIGNAL_NAMES, is_learned
from surefind.storage import write_whole

# Colours that stay apart for the colour-blind, each with one meaning in all figures.
RIGHT = "#009e73"  # green; never without a mark, a dash or a word beside it
WRONG = "#cc3311"  # red
OURS = "#0072b2"  # blue
GREY = "#7f7f7f"
PALE = "#e4e4e4"  # grids, tiles without a picture
INK = "#222222"
SERIES = (OURS, "#aa4499", "#44aa99", "#e69f00", "#56b4e9", "#882255", "#999933", "#332288")

WIDTH = 8.0  # inches; shown 700 pixels wide, the small type is still 10 pixels high
LARGE, TEXT, SMALL = 10, 9, 8  # points
NOISE = 0.1  # below this share of queries risk curves jump; they set no limit of the axis

ENDINGS = (".png", ".svg", ".pdf")
DASHES, MARKERS = ("-", "--", "-.", ":"), ("o", "s", "^", "D", "v")  # of the SERIES
_DPI = 130
_NO_DATE = {  # the same figure gives the same bytes
    ".png": {},
    ".svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    ".pdf": {"CreationDate": None},
}
_TEXT_STAYS_TEXT: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "surefind",
    "font.sans-serif": ["DejaVu Sans"],  # in the file: 'DejaVu Sans', sans-serif
}


class NothingToDraw(SurefindError):
    """The report lacks the data of a figure."""


def panels(rows: int, columns: int, *, height: float, title: str = "") -> tuple[Figure, NDArray[Any]]:
    """Make a figure and its axes, (rows, columns), with quiet frames and grids."""
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
    """Set title and labels of one panel."""
    axis.set_title(title, fontsize=TEXT, loc="left", color=INK)
    axis.set_xlabel(x, fontsize=TEXT, color=INK)
    axis.set_ylabel(y, fontsize=TEXT, color=INK)


def key(axis: Axes, **where: Any) -> None:
    """Add the legend of one panel, legible above curves."""
    look: dict[str, Any] = {"framealpha": 0.8, "edgecolor": "none", "alignment": "left"}
    axis.legend(fontsize=SMALL, title_fontsize=SMALL, **look, **where)


def lower_key(figure: Figure, curves: Sequence[Artist], names: Sequence[str]) -> None:
    """Add the legend of a figure, beneath its panels, in at most four columns."""
    look: dict[str, Any] = {"ncols": min(len(names), 4), "fontsize": SMALL, "frameon": False}
    figure.legend(curves, names, loc="outside lower center", **look)


def signal_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Learned signals are solid, training-free ones dashed; a colour stays with its signal.

    The cosine is dotted: of unit vectors it is in the order of the distance, which shows through.
    """
    names = list(names)
    order = list(dict.fromkeys([*SIGNAL_NAMES, *names]))
    return {
        name: {
            "color": SERIES[order.index(name) % len(SERIES)],
            "linestyle": "-" if is_learned(name) else ":" if name == COSINE else "--",
        }
        for name in names
    }


def curve_look(number: int) -> dict[str, Any]:
    """Return colour, dash and marker of a curve; only the first is solid."""
    dash = DASHES[number] if number < len(DASHES) else DASHES[1 + (number - 1) % (len(DASHES) - 1)]
    look = {"color": SERIES[number % len(SERIES)], "linestyle": dash}
    return look | {"marker": MARKERS[number % len(MARKERS)], "markersize": 4, "clip_on": False}


def main_signal(queries: QueryTable, ranking: str, wanted: str = "query_var") -> str:
    """Return the wanted variance, or the nearest distance where the model has none."""
    return wanted if f"{ranking}.signal.{wanted}" in queries.columns else "nearest_distance"


def check_foreign(queries: QueryTable) -> None:
    if not queries["foreign"].any():
        fix = "evaluate again with --ood DATA"
        raise NothingToDraw("the report has no foreign queries", fix=fix)


def interval(estimate: Estimate) -> str:
    """Write a number with its interval."""
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def shortened(text: str, letters: int) -> str:
    """Cut a text so that it fits."""
    return text if len(text) <= letters else text[: letters - 1] + "…"


def spans_decades(values: NDArray[np.float64]) -> bool:
    """Return whether to use a logarithmic axis: positive, the largest 30 times the smallest."""
    return bool(values.min() > 0 and values.max() > 30 * values.min())


def check_ending(path: Path) -> None:
    """Raise InvalidFile unless the file is a PNG, SVG or PDF."""
    if path.suffix not in ENDINGS:
        raise InvalidFile(f"cannot draw {path}", fix="name a .png, .svg or .pdf file")


def save(figure: Figure, path: Path) -> None:
    """Write the figure as its ending says: PNG, SVG or PDF."""
    check_ending(path)
    write_whole(path, content(figure, path.suffix), fix="choose a writable folder")


def content(figure: Figure, ending: str) -> bytes:
    """Return the bytes of a file with this ending."""
    file = io.BytesIO()
    with rc_context(_TEXT_STAYS_TEXT):
        figure.savefig(file, format=ending[1:], dpi=_DPI, metadata=_NO_DATE[ending])
    return file.getvalue()
