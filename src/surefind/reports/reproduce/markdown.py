"""A comparison as Markdown, its place in a document, and the same for a terminal."""

from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from surefind.errors import InvalidFile
from surefind.reports.reproduce.compare import ComparedRow, Comparison, SeedMean
from surefind.reports.reproduce.paper import COLUMNS
from surefind.reports.signals import signal_name
from surefind.storage import write_whole

Cell = tuple[str, ...]  # parts that may stand beside or below each other
EMPTY: Cell = ("\N{EN DASH}",)
ZERO_SHOT = ("R@1", "R@5", "M@5", "ECE@1")
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class TextTable(NamedTuple):
    """Cells in lines; the first `labels` columns say what a line is about."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[Cell, ...], ...]
    labels: int = 1


def to_markdown(comparison: Comparison) -> str:
    """What to know, the tables, the footnotes."""
    parts = ["\n".join(f"- {fact}" for fact in comparison.facts)]
    for table in _tables(comparison):
        lines = [table.columns, ("---",) * len(table.columns)]
        lines += [tuple(" ".join(cell) for cell in line) for line in table.lines]
        shown = (f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"**{table.title}**\n\n" + "\n".join(shown))
    parts += [*_footnotes(comparison), "\n".join(f"- {note}" for note in comparison.notes)]
    return "\n\n".join(parts) + "\n"


def to_terminal(comparison: Comparison) -> RenderableType:
    """The same in 80 columns, where Markdown would be cut off: a few columns at a time."""
    parts: list[RenderableType] = list(comparison.facts)
    for table in _tables(comparison):
        count = len(table.columns)
        step = 2 if (count - table.labels) % 3 else 3
        for start in range(table.labels, count, step):
            shown = [*range(table.labels), *range(start, min(start + step, count))]
            made = RichTable(box=SIMPLE_HEAD, padding=0, title=table.title, title_justify="left")
            for number in shown:
                made.add_column(table.columns[number], no_wrap=number >= table.labels)
            for line in table.lines:
                made.add_row(*(Text("\n".join(line[number])) for number in shown))
            parts.append(made)
    parts += [*_footnotes(comparison), *comparison.notes]
    plain = (Text(p.replace("**", "").replace("`", "")) if isinstance(p, str) else p for p in parts)
    return Group(*plain)


def into(document: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- begin NAME -->` and `<!-- end NAME -->`."""
    whole, start, end = find_place(document, name)
    write_whole(document, f"{whole[:start]}\n{text.strip()}\n{whole[end:]}".encode())


def find_place(document: Path, name: str) -> tuple[str, int, int]:
    """Return the text of a document, where the part begins and where it ends."""
    begin, finish = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    try:
        whole = document.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"cannot read {document}: {error}") from error
    start = whole.find(begin) + len(begin)
    end = whole.find(finish, start)
    if begin not in whole or end < 0:
        raise InvalidFile(
            f"{document} has no place for this table",
            fix=f"write the lines {begin} and {finish} where it shall stand",
        )
    return whole, start, end


def _tables(comparison: Comparison) -> list[TextTable]:
    """Retrieval and calibration; wrong top hits; others where there is something to show."""
    rows = comparison.rows

    def ours(
        title: str,
        columns: tuple[str, ...],
        figures: Callable[[ComparedRow], list[SeedMean | None]],
    ) -> TextTable:
        lines = (((row.title,), *map(_cell, figures(row))) for row in rows)
        return TextTable(title, ("row", *columns), tuple(lines))

    made = [_against_the_paper(rows), _wrong_hits(rows)]
    if any(row.uncertainty.ood or row.uncertainty.free_ood for row in rows):
        columns: tuple[str, ...] = ("AUROC, pair variance", "AUROC, nearest distance")
        title = "Foreign queries (ours)"
        made.append(
            ours(title, columns, lambda row: [row.uncertainty.ood, row.uncertainty.free_ood])
        )
    if any(row.uncertainty.difficulty for row in rows):
        columns = ("rank correlation of query variance and known corruption",)
        made.append(
            ours("Known corruption (ours)", columns, lambda row: [row.uncertainty.difficulty])
        )
    for number, data in enumerate(comparison.zero_shot):

        def zero_shot(row: ComparedRow, number: int = number) -> list[SeedMean | None]:
            figures, uncertainty = row.zero_shot[number]
            return [*map(figures.get, ZERO_SHOT), uncertainty.auroc, uncertainty.free_auroc]

        columns = (*ZERO_SHOT, "AUROC, query variance", "AUROC, training-free")
        made.append(ours(f"Zero-shot (ours): {data}", columns, zero_shot))
    return made


def _against_the_paper(rows: tuple[ComparedRow, ...]) -> TextTable:
    lines: list[tuple[Cell, ...]] = []
    of_paper = any(row.paper for row in rows)
    for row in rows:
        if row.paper:
            marks = {column: _mark(number) for column, number in row.footnotes.items()}
            quoted = (
                (f"{row.paper[column]:.3f}{marks.get(column, '')}",)
                if column in row.paper
                else EMPTY
                for column in COLUMNS
            )
            lines.append(((row.title,), ("paper",), EMPTY, *quoted))
        whose = "ours, not in the paper" if of_paper and not row.paper else "ours"
        ours = (_cell(row.ours.get(column)) for column in COLUMNS)
        lines.append(((row.title,), (whose,), (str(row.seeds),), *ours))
    columns = ("row", "whose", "seeds", *COLUMNS)
    return TextTable("Retrieval and calibration", columns, tuple(lines), labels=3)


def _wrong_hits(rows: tuple[ComparedRow, ...]) -> TextTable:
    lines = []
    for row in rows:
        uncertainty = row.uncertainty
        free = (signal_name(uncertainty.free),) if uncertainty.free else EMPTY
        cells = map(
            _cell,
            (uncertainty.auroc, uncertainty.free_auroc, uncertainty.aurc, uncertainty.free_aurc),
        )
        paired = EMPTY
        if row.against is not None:
            (value, low, high), p = astuple(row.against.difference), row.against.p_value
            paired = (f"{value:+.3f}", f"[{low:+.3f}, {high:+.3f}]", f"p {p:.3f}")
        lines.append(((row.title,), free, *cells, paired))
    measures = (
        f"{name}, {by}" for name in ("AUROC", "AURC") for by in ("query variance", "training-free")
    )
    columns = ("row", "training-free", *measures, f"R@1 less {rows[0].title}'s")
    return TextTable("Wrong top hits by uncertainty (ours)", columns, tuple(lines), labels=2)


def _cell(figure: SeedMean | None) -> Cell:
    """
    >>> _cell(SeedMean(0.6, 0.58, 0.62, std=0.01))
    ('0.600', '[0.580, 0.620]', '± 0.010')
    """
    if figure is None:
        return EMPTY
    spread = () if figure.std is None else (f"± {figure.std:.3f}",)
    return (f"{figure.value:.3f}", f"[{figure.low:.3f}, {figure.high:.3f}]", *spread)


def _footnotes(comparison: Comparison) -> list[str]:
    return [f"{_mark(n)} {text}" for n, text in enumerate(comparison.footnotes, start=1)]


def _mark(number: int) -> str:
    return str(number).translate(SUPERSCRIPT)
