"""Queries beside what was found for them."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from surefind.reports.figures.missing import NothingToDraw
from surefind.reports.figures.palette import GREY, INK, RIGHT, WRONG
from surefind.reports.figures.panels import LARGE, SMALL, WIDTH, shortened
from surefind.reports.figures.signals import main_signal
from surefind.reports.figures.thumbnail import thumbnail
from surefind.reports.names import signal_name
from surefind.reports.queries import QueryTable
from surefind.reports.result import EvalResult

_HITS = 5
_PITCH = (1.14, 1.42)  # from tile to tile, in tiles: across, down
_GAP = 0.25  # between the query and its hits
_LETTERS = 17  # that fit beneath a tile
_HEADING = 0.4  # inches


def draw_gallery(
    result: EvalResult,
    queries: QueryTable,
    *,
    rows: Iterable[int],
    title: str,
    ranking: str = "means",
) -> Figure:
    """A row per query: its picture, then its 5 nearest, marked ✓ in a green or ✗ in a red frame."""
    rows = [int(row) for row in rows]
    if not rows:
        raise NothingToDraw(f"{title}: there is no such query", fix="look at other queries")
    figure, axis = _canvas(len(rows), title)
    hits = min(_HITS, queries.hits(ranking).shape[1])
    labels = dict(zip(queries["path"], queries["label"], strict=True))
    for place, row in enumerate(rows):
        y, query = place * _PITCH[1], queries.select(np.array([row]))
        _draw_query(axis, result, query, y=y, ranking=ranking)
        for rank in range(1, hits + 1):
            hit = _Hit(*(query[f"{ranking}.{part}_{rank}"][0] for part in _Hit._fields))
            at = (_GAP + rank * _PITCH[0], y)
            _draw_hit(axis, hit, at, root=result.about.root, label=labels.get(hit.hit, ""))
    return figure


class _Hit(NamedTuple):
    """As in the columns of the table."""

    hit: str
    match: bool
    distance: float


def _canvas(rows: int, title: str) -> tuple[Figure, Axes]:
    """One axis in units of tiles, y downwards."""
    across, down = _HITS * _PITCH[0] + _GAP + 1.1, rows * _PITCH[1]
    inches = WIDTH / (across + 0.1)  # of a tile
    height = inches * down + _HEADING
    figure = Figure(figsize=(WIDTH, height))
    axis = figure.add_axes((0, 0, 1, 1 - _HEADING / height))
    axis.set(xlim=(-0.1, across), ylim=(down - 0.05, -0.05))
    axis.set_axis_off()
    x, y = 0.1 * inches / WIDTH, 1 - 0.12 / height
    figure.suptitle(title, fontsize=LARGE, x=x, y=y, ha="left", va="top", color=INK)
    return figure, axis


def _draw_query(
    axis: Axes, result: EvalResult, query: QueryTable, *, y: float, ranking: str
) -> None:
    """`query` has one row."""
    foreign = query["foreign"][0]
    root = result.about.foreign_root if foreign else result.about.root
    signal = main_signal(query, ranking)
    doubt = f"{signal_name(signal)} {query.signals(ranking)[signal][0]:.3g}"
    _draw_tile(axis, thumbnail(root, query["path"][0]), (0, y), frame=INK)
    _write(axis, ("foreign" if foreign else query["label"][0], doubt), (0, y), colour=INK)


def _draw_hit(axis: Axes, hit: _Hit, at: tuple[float, float], *, root: str, label: str) -> None:
    mark, colour, dash = ("✓", RIGHT, "solid") if hit.match else ("✗", WRONG, "dashed")
    _draw_tile(axis, thumbnail(root, hit.hit), at, frame=colour, dash=dash)
    _write(axis, (f"{mark} {label}", f"distance {hit.distance:.3g}"), at, colour=colour)


def _draw_tile(
    axis: Axes,
    pixels: NDArray[np.uint8],
    at: tuple[float, float],
    *,
    frame: str,
    dash: str = "solid",
) -> None:
    x, y = at
    axis.imshow(pixels, extent=(x, x + 1, y + 1, y), aspect="auto")
    axis.add_patch(Rectangle(at, 1, 1, fill=False, edgecolor=frame, linestyle=dash, linewidth=2.5))


def _write(axis: Axes, lines: tuple[str, str], at: tuple[float, float], *, colour: str) -> None:
    """Beneath a tile, the second line in grey."""
    x, y = at
    first, second = shortened(lines[0], _LETTERS), lines[1]
    axis.text(x, y + 1.1, first, fontsize=SMALL, color=colour, va="center")
    axis.text(x, y + 1.23, second, fontsize=SMALL, color=GREY, va="center")
