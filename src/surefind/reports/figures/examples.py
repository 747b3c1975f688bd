"""Figures of example queries, alone or above their nearest hits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from PIL import Image, ImageOps

from surefind.images.decode import ImageRejected, decode_picture
from surefind.reports.figures import style
from surefind.reports.result import EvalResult, QueryTable, Report
from surefind.reports.signals import signal_name

SIDE = 200  # pixels of a thumbnail
_COLUMNS = 6
_SHEET = 12  # queries on a sheet
_PITCH = (1.14, 1.42)  # from tile to tile, in tiles: across, down
_GAP = 0.25  # before a heading
_LETTERS = 17  # that fit beneath a tile
_HEADING = 0.4  # inches of the title
_SHORT = {"query_var": "variance", "pair_var": "cov[Δ]", "nearest_distance": "d₁"}
_MARKS = {True: ("✓", style.RIGHT, "solid"), False: ("✗", style.WRONG, "dashed")}


def by_uncertainty(
    queries: QueryTable,
    signal: str,
    *,
    ranking: str = "means",
    top_hit: bool | None = None,
    foreign: bool = False,
    descending: bool = False,
) -> NDArray[np.int64]:
    """Return the rows of the scored queries, and of the `foreign` ones, the surest first.

    With `top_hit`, only queries whose top hit is right (True) or wrong (False).
    """
    kept = queries["n_matches"] > 0
    if top_hit is not None:
        kept = kept & (queries[f"{ranking}.match_1"] == top_hit)
    rows = np.flatnonzero(kept | queries["foreign"] if foreign else kept & ~queries["foreign"])
    values = queries.signals(ranking)[signal][rows]
    return rows[np.argsort(-values if descending else values, kind="stable")]


def thumbnail(root: str | Path, path: str) -> NDArray[np.uint8]:
    """Return the picture on grey, (SIDE, SIDE, 3); all grey if it cannot be read."""
    tile = Image.new("RGB", (SIDE, SIDE), tuple(round(255 * c) for c in to_rgb(style.PALE)))
    try:
        picture = decode_picture(Path(root) / path)
    except ImageRejected:
        return np.array(tile)
    image = ImageOps.contain(picture, (SIDE, SIDE))
    tile.paste(image, ((SIDE - image.width) // 2, (SIDE - image.height) // 2))
    return np.array(tile)


def draw_extremes(result: EvalResult, queries: QueryTable, *, ranking: str = "means") -> Figure:
    """Draw the twelve surest and the twelve least sure queries, framed by their top hit."""
    tiles, signal = _Tiles(result, queries, ranking), style.main_signal(queries, ranking)
    right = queries[f"{ranking}.match_1"]
    sheet = _Sheet(f"Queries by {signal_name(signal)}; ✓ the nearest hit is right, ✗ it is wrong")
    for heading, descending in (("Surest", False), ("Least sure", True)):
        rows = by_uncertainty(queries, signal, ranking=ranking, descending=descending)[:_SHEET]
        sheet.heading(f"{heading}: {int((~right[rows]).sum())} of {len(rows)} wrong")
        sheet.fill([tiles.query(row, signal, match=right[row]) for row in rows])
    return sheet.figure()


def draw_pairs(result: EvalResult, queries: QueryTable, *, ranking: str = "means") -> Figure:
    """Draw queries above correct nearest hits, at both ends of cov[Δ]."""
    tiles = _Tiles(result, queries, ranking)
    signal = style.main_signal(queries, ranking, "pair_var")
    rows = by_uncertainty(queries, signal, ranking=ranking, top_hit=True)
    if not len(rows):
        raise style.NothingToDraw("no query has a right nearest hit")
    count = min(_COLUMNS, -(-len(rows) // 2))
    sheet = _Sheet(f"Queries (above) and their nearest hits (below), all right, by {signal_name(signal)}")
    for heading, some in (("Most certain", rows[:count]), ("Least certain", rows[::-1][:count])):
        sheet.heading(heading)
        sheet.fill([tiles.query(row, signal) for row in some])
        sheet.fill([tiles.hit(row) for row in some])
    return sheet.figure()


def draw_own_and_foreign(reports: Sequence[Report], *, ranking: str = "means") -> Figure:
    """Draw the twelve least sure of in-catalogue and foreign queries, for each report."""
    sheet = _Sheet("Least certain of in-catalogue and foreign queries together")
    for label, result, queries in reports:
        style.check_foreign(queries)
        signal, foreign = style.main_signal(queries, ranking, "pair_var"), queries["foreign"]
        rows = by_uncertainty(queries, signal, ranking=ranking, foreign=True, descending=True)
        rows = rows[:_SHEET]
        sheet.heading(
            f"{label}: {int(foreign[rows].sum())} of {len(rows)} foreign by {signal_name(signal)} "
            f"(of all queries {100 * foreign.mean():.0f} %)"
        )
        tiles = _Tiles(result, queries, ranking)
        sheet.fill([tiles.query(row, signal, frame_foreign=True) for row in rows])
    return sheet.figure()


class Tile(NamedTuple):
    """A framed picture with two lines of text below."""

    root: str
    path: str
    lines: tuple[str, str]
    colour: str = style.INK
    dash: str = "solid"


class _Tiles:
    """Tiles of the rows of a query table."""

    def __init__(self, result: EvalResult, queries: QueryTable, ranking: str) -> None:
        self.about, self.queries, self.ranking = result.about, queries, ranking
        self.labels = dict(zip(queries["path"], queries["label"], strict=True))

    def query(self, row: int, signal: str, *, match: bool | None = None, frame_foreign: bool = False) -> Tile:
        """Return a query, framed by whether its top hit matches, or it is foreign."""
        foreign, colour, dash = self.queries["foreign"][row], style.INK, "solid"
        name = "foreign" if foreign else str(self.queries["label"][row])
        if match is not None:
            mark, colour, dash = _MARKS[bool(match)]
            name = f"{mark} {name}"
        elif foreign and frame_foreign:
            colour, dash = style.WRONG, "dashed"
        root = self.about.foreign_root if foreign else self.about.root
        value = self.queries.signals(self.ranking)[signal][row]
        lines = name, f"{_SHORT.get(signal, signal)} {value:.3g}"
        return Tile(root, self.queries["path"][row], lines, colour, dash)

    def hit(self, row: int) -> Tile:
        """Return the nearest hit, framed by whether it matches."""
        path, match, distance = (self.queries[f"{self.ranking}.{part}_1"][row] for part in ("hit", "match", "distance"))
        mark, colour, dash = _MARKS[bool(match)]
        lines = f"{mark} {self.labels.get(path, '')}", f"distance {distance:.3g}"
        return Tile(self.about.root, path, lines, colour, dash)


class _Sheet:
    """Rows of tiles with headings between them; one axis in units of tiles, y downwards."""

    def __init__(self, title: str) -> None:
        self.title, self.y = title, 0.0
        self.tiles: list[tuple[Tile, float, float]] = []
        self.headings: list[tuple[str, float]] = []

    def fill(self, tiles: Sequence[Tile]) -> None:
        """Add rows of tiles."""
        for start in range(0, len(tiles), _COLUMNS):
            for column, tile in enumerate(tiles[start : start + _COLUMNS]):
                self.tiles.append((tile, column * _PITCH[0], self.y))
            self.y += _PITCH[1]

    def heading(self, text: str) -> None:
        self.headings.append((text, self.y))
        self.y += _GAP

    def figure(self) -> Figure:
        across = _COLUMNS * _PITCH[0]
        inches = style.WIDTH / (across + 0.1)  # of a tile
        height = inches * self.y + _HEADING
        figure = Figure(figsize=(style.WIDTH, height))
        axis = figure.add_axes((0, 0, 1, 1 - _HEADING / height))
        axis.set(xlim=(-0.1, across), ylim=(self.y - 0.05, -0.05))
        axis.set_axis_off()
        for tile, x, y in self.tiles:
            picture = thumbnail(tile.root, tile.path)
            axis.imshow(picture, extent=(x, x + 1, y + 1, y), aspect="auto")
            frame: dict[str, Any] = {"edgecolor": tile.colour, "linestyle": tile.dash}
            axis.add_patch(Rectangle((x, y), 1, 1, fill=False, linewidth=2.5, **frame))
            first, second = style.shortened(tile.lines[0], _LETTERS), tile.lines[1]
            axis.text(x, y + 1.1, first, fontsize=style.SMALL, color=tile.colour, va="center")
            axis.text(x, y + 1.23, second, fontsize=style.SMALL, color=style.GREY, va="center")
        for text, y in self.headings:
            axis.text(0, y + 0.08, text, fontsize=style.TEXT, color=style.INK, va="center")
        x, y = 0.1 * inches / style.WIDTH, 1 - 0.12 / height
        figure.suptitle(self.title, fontsize=style.LARGE, x=x, y=y, ha="left", va="top", color=style.INK)
        return figure
