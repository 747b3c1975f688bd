"""A comparison for a terminal: narrow tables, the parts of a cell below each other."""

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from surefind.reports.reproduce.compare import Comparison
from surefind.reports.reproduce.table import TextTable, footnotes, tables


def to_terminal(comparison: Comparison) -> RenderableType:
    """What to know, the tables, the footnotes."""
    parts: list[RenderableType] = [_text(fact) for fact in comparison.facts]
    for table in tables(comparison):
        parts += [_rich(part) for part in _narrow(table)]
    parts += [_text(line) for line in (*footnotes(comparison), *comparison.notes)]
    return Group(*parts)


def _narrow(table: TextTable) -> Iterator[TextTable]:
    """The table with three columns of figures at a time, or two where that comes out even."""
    step = 2 if (len(table.columns) - table.labels) % 3 else 3
    for start in range(table.labels, len(table.columns), step):
        shown = [*range(table.labels), *range(start, min(start + step, len(table.columns)))]
        yield table._replace(
            columns=tuple(table.columns[column] for column in shown),
            lines=tuple(tuple(line[column] for column in shown) for line in table.lines),
        )


def _rich(table: TextTable) -> Table:
    made = Table(box=SIMPLE_HEAD, padding=0, title=table.title, title_justify="left")
    for number, column in enumerate(table.columns):
        made.add_column(column, no_wrap=number >= table.labels)
    for line in table.lines:
        made.add_row(*(Text("\n".join(cell)) for cell in line))
    return made


def _text(line: str) -> Text:
    return Text(line.replace("**", "").replace("`", ""))
