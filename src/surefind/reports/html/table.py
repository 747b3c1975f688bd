"""A table of measurements, the best of each column marked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan

from surefind.metrics.bootstrap import Estimate
from surefind.reports.html.numbers import MISSING, Show, decimal, interval

Value = Estimate | float | None
Best = Callable[[Iterable[float]], float]  # max or min


@dataclass(frozen=True)
class Column:
    """One measurement: what it is called, how it is written, which is best."""

    title: str
    show: Show = decimal
    best: Best | None = None

    @property
    def hint(self) -> str:
        """Which way is better, as an arrow."""
        return "↑" if self.best is max else "↓" if self.best is min else ""


@dataclass(frozen=True)
class Cell:
    """As it is written."""

    text: str
    interval: str = ""
    best: bool = False


@dataclass(frozen=True)
class Row:
    """A name and its cells; neighbours of one group stand together under its title."""

    name: str
    cells: tuple[Cell, ...]
    group: str = ""


@dataclass(frozen=True)
class Table:
    """Ready for the page."""

    caption: str
    first: str  # title of the column of names
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


def fill(
    caption: str,
    first: str,
    *,
    columns: Sequence[Column],
    rows: Mapping[str, Mapping[str, Value]],
    groups: Mapping[str, str] | None = None,
) -> Table:
    """Each row gives values by the title of their column; a column without values is left out."""
    kept = [c for c in columns if any(row.get(c.title) is not None for row in rows.values())]
    cells = [_cells(column, [row.get(column.title) for row in rows.values()]) for column in kept]
    return Table(
        caption,
        first,
        tuple(kept),
        tuple(
            Row(name, tuple(column[number] for column in cells), (groups or {}).get(name, ""))
            for number, name in enumerate(rows)
        ),
    )


def _cells(column: Column, found: list[Value]) -> list[Cell]:
    best = _best(column, [_number(value) for value in found])
    return [
        Cell(
            MISSING if value is None else column.show(_number(value)),
            interval(value, column.show) if isinstance(value, Estimate) else "",
            _number(value) == best,
        )
        for value in found
    ]


def _best(column: Column, values: list[float]) -> float | None:
    """None where nothing stands out."""
    known = {value for value in values if not isnan(value)}
    return column.best(known) if column.best and len(known) > 1 else None


def _number(value: Value) -> float:
    if value is None:
        return nan
    return value.value if isinstance(value, Estimate) else value
