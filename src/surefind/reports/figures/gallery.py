"""Queries as pictures: beside their hits, in pairs, or by themselves."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from surefind.reports.figures.missing import NothingToDraw
from surefind.reports.figures.palette import GREY, INK, RIGHT, WRONG
from surefind.reports.figures.panels import LARGE, SMALL, TEXT, WIDTH, shortened
from surefind.reports.figures.report import Report
from surefind.reports.figures.selection import (
    least_sure,
    least_sure_of_all,
    right_pairs,
    surest,
)
from surefind.reports.figures.signals import main_signal, pair_signal
from surefind.reports.figures.thumbnail import thumbnail
from surefind.reports.names import signal_name
from surefind.reports.queries import QueryTable
from surefind.reports.result import EvalResult

_HITS = 5  # beside a query
_COLUMNS = 6  # of queries without their hits
_SHEET = 12  # queries on a sheet
_PITCH = (1.14, 1.42)  # from tile to tile, in tiles: across, down
_GAP = 0.25  # between the query and its hits, and before a heading
_LETTERS = 17  # that fit beneath a tile
_HEADING = 0.4  # inches of the title
_SHORT = {"query_var": "variance", "pair_var": "cov[Δ]", "nearest_distance": "d₁"}


class Tile(NamedTuple):
    """A picture in a frame, with two lines beneath it."""

    root: str
    path: str
    lines: tuple[str, str]
    colour: str = INK
    dash: str = "solid"


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
    tiles = _Tiles(result, queries, ranking)
    sheet = _Sheet(title, across=_HITS * _PITCH[0] + _GAP + 1.1)
    hits = min(_HITS, queries.hits(ranking).shape[1])
    for row in rows:
        sheet.add(tiles.query(row, main_signal(queries, ranking)), x=0)
        for rank in range(1, hits + 1):
            sheet.add(tiles.hit(row, rank), x=_GAP + rank * _PITCH[0])
        sheet.next_row()
    return sheet.figure()


def draw_extremes(result: EvalResult, queries: QueryTable, *, ranking: str = "means") -> Figure:
    """The twelve surest and the twelve least sure queries; frames tell which top hits are right."""
    tiles, signal = _Tiles(result, queries, ranking), main_signal(queries, ranking)
    sheet = _Sheet(f"Queries by {signal_name(signal)}; ✓ the nearest hit is right, ✗ it is wrong")
    for heading, select in (("Surest", surest), ("Least sure", least_sure)):
        rows = select(queries, ranking=ranking, count=_SHEET)
        wrong = int((~queries[f"{ranking}.match_1"][rows]).sum())
        sheet.heading(f"{heading}: {wrong} of {len(rows)} wrong")
        sheet.fill([tiles.judged(row, signal) for row in rows])
    return sheet.figure()


def draw_pairs(result: EvalResult, queries: QueryTable, *, ranking: str = "means") -> Figure:
    """Queries above their nearest hits, all of them matches, at both ends of cov[Δ]."""
    tiles, signal = _Tiles(result, queries, ranking), pair_signal(queries, ranking)
    rows = right_pairs(queries, ranking=ranking)
    if not len(rows):
        raise NothingToDraw("no query has a right nearest hit", fix="look at other figures")
    count = min(_COLUMNS, -(-len(rows) // 2))
    sheet = _Sheet(
        f"Queries (above) and their nearest hits (below), all right, by {signal_name(signal)}"
    )
    for heading, some in (("Most certain", rows[:count]), ("Least certain", rows[::-1][:count])):
        sheet.heading(heading)
        sheet.fill([tiles.query(row, signal) for row in some])
        sheet.fill([tiles.hit(row, 1) for row in some])
    return sheet.figure()


def draw_own_and_foreign(reports: Sequence[Report], *, ranking: str = "means") -> Figure:
    """The twelve least sure of in-catalogue and foreign queries together, for each report."""
    sheet = _Sheet("Least certain of in-catalogue and foreign queries together")
    for label, result, queries in reports:
        if not queries["foreign"].any():
            raise NothingToDraw(
                "the report has no foreign queries", fix="evaluate again with --ood DATA"
            )
        signal = pair_signal(queries, ranking)
        rows = least_sure_of_all(queries, ranking=ranking, count=_SHEET)
        foreign = queries["foreign"]
        sheet.heading(
            f"{label}: {int(foreign[rows].sum())} of {len(rows)} foreign by {signal_name(signal)} "
            f"(of all queries {100 * foreign.mean():.0f} %)"
        )
        tiles = _Tiles(result, queries, ranking)
        sheet.fill([tiles.origin(row, signal) for row in rows])
    return sheet.figure()


class _Tiles:
    """Turns rows of the table into tiles."""

    def __init__(self, result: EvalResult, queries: QueryTable, ranking: str) -> None:
        self.about, self.queries, self.ranking = result.about, queries, ranking
        self.labels = dict(zip(queries["path"], queries["label"], strict=True))

    def query(self, row: int, signal: str) -> Tile:
        """Named by its label."""
        return self._query(row, self._name(row), signal)

    def judged(self, row: int, signal: str) -> Tile:
        """Framed by whether its nearest hit is right."""
        mark, colour, dash = _mark(match=self.queries[f"{self.ranking}.match_1"][row])
        return self._query(row, f"{mark} {self._name(row)}", signal, colour=colour, dash=dash)

    def origin(self, row: int, signal: str) -> Tile:
        """Framed by whether it is foreign."""
        if self.queries["foreign"][row]:
            return self._query(row, "foreign", signal, colour=WRONG, dash="dashed")
        return self._query(row, self._name(row), signal)

    def hit(self, row: int, rank: int) -> Tile:
        """One of the nearest, framed by whether it matches."""
        path, match, distance = (
            self.queries[f"{self.ranking}.{part}_{rank}"][row]
            for part in ("hit", "match", "distance")
        )
        mark, colour, dash = _mark(match=match)
        lines = f"{mark} {self.labels.get(path, '')}", f"distance {distance:.3g}"
        return Tile(self.about.root, path, lines, colour, dash)

    def _query(
        self, row: int, name: str, signal: str, *, colour: str = INK, dash: str = "solid"
    ) -> Tile:
        foreign = self.queries["foreign"][row]
        root = self.about.foreign_root if foreign else self.about.root
        value = self.queries.signals(self.ranking)[signal][row]
        lines = name, f"{_SHORT.get(signal, signal)} {value:.3g}"
        return Tile(root, self.queries["path"][row], lines, colour, dash)

    def _name(self, row: int) -> str:
        return "foreign" if self.queries["foreign"][row] else str(self.queries["label"][row])


def _mark(*, match: bool) -> tuple[str, str, str]:
    """Never by colour alone."""
    return ("✓", RIGHT, "solid") if match else ("✗", WRONG, "dashed")


class _Sheet:
    """Rows of tiles with headings between them; one axis in units of tiles, y downwards."""

    def __init__(self, title: str, *, across: float = _COLUMNS * _PITCH[0]) -> None:
        self.title, self.across, self.y = title, across, 0.0
        self.tiles: list[tuple[Tile, float, float]] = []
        self.headings: list[tuple[str, float]] = []

    def add(self, tile: Tile, *, x: float) -> None:
        self.tiles.append((tile, x, self.y))

    def next_row(self) -> None:
        self.y += _PITCH[1]

    def fill(self, tiles: Sequence[Tile]) -> None:
        """As many rows as it takes."""
        for start in range(0, len(tiles), _COLUMNS):
            for column, tile in enumerate(tiles[start : start + _COLUMNS]):
                self.add(tile, x=column * _PITCH[0])
            self.next_row()

    def heading(self, text: str) -> None:
        self.headings.append((text, self.y))
        self.y += _GAP

    def figure(self) -> Figure:
        inches = WIDTH / (self.across + 0.1)  # of a tile
        height = inches * self.y + _HEADING
        figure = Figure(figsize=(WIDTH, height))
        axis = figure.add_axes((0, 0, 1, 1 - _HEADING / height))
        axis.set(xlim=(-0.1, self.across), ylim=(self.y - 0.05, -0.05))
        axis.set_axis_off()
        for tile, x, y in self.tiles:
            _draw_tile(axis, tile, (x, y))
        for text, y in self.headings:
            axis.text(0, y + 0.08, text, fontsize=TEXT, color=INK, va="center")
        x, y = 0.1 * inches / WIDTH, 1 - 0.12 / height
        figure.suptitle(self.title, fontsize=LARGE, x=x, y=y, ha="left", va="top", color=INK)
        return figure


def _draw_tile(axis: Axes, tile: Tile, at: tuple[float, float]) -> None:
    x, y = at
    axis.imshow(thumbnail(tile.root, tile.path), extent=(x, x + 1, y + 1, y), aspect="auto")
    frame: dict[str, Any] = {"edgecolor": tile.colour, "linestyle": tile.dash, "linewidth": 2.5}
    axis.add_patch(Rectangle(at, 1, 1, fill=False, **frame))
    first, second = shortened(tile.lines[0], _LETTERS), tile.lines[1]
    axis.text(x, y + 1.1, first, fontsize=SMALL, color=tile.colour, va="center")
    axis.text(x, y + 1.23, second, fontsize=SMALL, color=GREY, va="center")
