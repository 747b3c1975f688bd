"""Queries worth looking at, each beside what was found for it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import isnan
from pathlib import Path, PurePosixPath

from surefind.reports.figures.selection import Rows, confident_but_wrong, least_sure, surest
from surefind.reports.figures.signals import main_signal
from surefind.reports.html.best import RANKING
from surefind.reports.html.numbers import percent, short
from surefind.reports.html.thumbnails import Thumbnail, thumbnail
from surefind.reports.names import signal_name
from surefind.reports.queries import QueryTable
from surefind.reports.result import EvalResult

ROWS = 8  # queries on a shelf
HITS = 5  # nearest beside each

_SHELVES: tuple[tuple[str, str, Callable[..., Rows]], ...] = (
    (
        "Most certain",
        "The queries with the lowest uncertainty. Their top hits should be right.",
        surest,
    ),
    (
        "Least certain",
        "The queries with the highest uncertainty. Look for what they share: blur, clutter, "
        "rare views.",
        least_sure,
    ),
    (
        "Confident but wrong",
        "The surest of the wrong answers: mistakes that uncertainty does not catch. Wrong labels "
        "and twins from another class show up here.",
        confident_but_wrong,
    ),
)


@dataclass(frozen=True)
class Hit:
    """One of the nearest pictures."""

    picture: Thumbnail
    path: str
    label: str
    distance: str
    match: bool


@dataclass(frozen=True)
class Entry:
    """A query and its hits."""

    picture: Thumbnail
    path: str
    label: str
    uncertainty: str
    probability: str  # that the top hit is right, in %; "" where there is none
    hits: tuple[Hit, ...]


@dataclass(frozen=True)
class Shelf:
    """Entries with one thing in common."""

    title: str
    text: str
    signal: str
    entries: tuple[Entry, ...]


def shelves(result: EvalResult, queries: QueryTable) -> list[Shelf]:
    """By the model's own uncertainty; a picture that several queries share is read once."""
    signal = main_signal(queries, RANKING)
    reader = _Reader(result, queries, signal)
    return [
        Shelf(
            title,
            text,
            signal_name(signal),
            tuple(
                reader.entry(row)
                for row in select(queries, ranking=RANKING, signal=signal, count=ROWS).tolist()
            ),
        )
        for title, text, select in _SHELVES
    ]


class _Reader:
    """Turns rows of the table into entries."""

    def __init__(self, result: EvalResult, queries: QueryTable, signal: str) -> None:
        self.root, self.queries, self.signal = Path(result.about.root), queries, signal
        own = ~queries["foreign"]
        self.labels = dict(
            zip(queries["path"][own].tolist(), queries["label"][own].tolist(), strict=True)
        )
        self.picture = cache(thumbnail)

    def entry(self, row: int) -> Entry:
        path = str(self.queries["path"][row])
        probability = self._number("probability." + self.signal, row)
        return Entry(
            self.picture(self.root / path),
            path,
            str(self.queries["label"][row]),
            short(self._number("signal." + self.signal, row)),
            "" if isnan(probability) else percent(probability),
            tuple(self._hit(row, rank) for rank in range(1, HITS + 1) if self._path(row, rank)),
        )

    def _hit(self, row: int, rank: int) -> Hit:
        path = self._path(row, rank)
        return Hit(
            self.picture(self.root / path),
            path,
            self.labels.get(path) or PurePosixPath(path).name,
            short(self._number(f"distance_{rank}", row)),
            bool(self.queries[f"{RANKING}.match_{rank}"][row]),
        )

    def _path(self, row: int, rank: int) -> str:
        name = f"{RANKING}.hit_{rank}"
        return str(self.queries[name][row]) if name in self.queries else ""

    def _number(self, column: str, row: int) -> float:
        name = f"{RANKING}.{column}"
        return float(self.queries[name][row]) if name in self.queries else float("nan")
