"""A comparison as tables of text, before anyone decides how they are shown."""

from typing import NamedTuple

from surefind.metrics import PairedTest
from surefind.reports.reproduce.compare import ComparedRow, Comparison, Figure
from surefind.reports.reproduce.paper import COLUMNS
from surefind.reports.signals import signal_name

Cell = tuple[str, ...]  # parts that may stand beside or below each other
EMPTY: Cell = ("\N{EN DASH}",)
ZERO_SHOT = ("R@1", "R@5", "M@5", "ECE@1")
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class TextTable(NamedTuple):
    """Cells in lines; the first `labels` columns say what a line is about."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[Cell, ...], ...]
    labels: int


def tables(comparison: Comparison) -> list[TextTable]:
    """Retrieval and calibration; wrong top hits; foreign queries where there are any."""
    made = [_against_the_paper(comparison), _wrong_hits(comparison)]
    if any(row.doubts.ood or row.doubts.free_ood for row in comparison.rows):
        made.append(_foreign(comparison))
    if any(row.doubts.difficulty for row in comparison.rows):
        made.append(_difficulty(comparison))
    return made + [_zero_shot(comparison, number) for number in range(len(comparison.zero_shot))]


def footnotes(comparison: Comparison) -> list[str]:
    return [f"{_mark(n)} {text}" for n, text in enumerate(comparison.footnotes, start=1)]


def _against_the_paper(comparison: Comparison) -> TextTable:
    lines = []
    of_paper = any(row.paper for row in comparison.rows)
    for row in comparison.rows:
        if row.paper:
            quoted = (_quoted(row, column) for column in COLUMNS)
            lines.append(((row.title,), ("paper",), EMPTY, *quoted))
        whose = "ours, not in the paper" if of_paper and not row.paper else "ours"
        ours = (_cell(row.ours.get(column)) for column in COLUMNS)
        lines.append(((row.title,), (whose,), (str(row.seeds),), *ours))
    return TextTable(
        "Retrieval and calibration", ("row", "whose", "seeds", *COLUMNS), tuple(lines), labels=3
    )


def _wrong_hits(comparison: Comparison) -> TextTable:
    lines = []
    for row in comparison.rows:
        doubts = row.doubts
        free = (signal_name(doubts.free),) if doubts.free else EMPTY
        cells = (doubts.auroc, doubts.free_auroc, doubts.aurc, doubts.free_aurc)
        lines.append(
            ((row.title,), free, *(_cell(figure) for figure in cells), _paired(row.against))
        )
    return TextTable(
        "Wrong top hits by uncertainty (ours)",
        (
            "row",
            "training-free",
            "AUROC, query variance",
            "AUROC, training-free",
            "AURC, query variance",
            "AURC, training-free",
            f"R@1 less {comparison.rows[0].title}'s",
        ),
        tuple(lines),
        labels=2,
    )


def _foreign(comparison: Comparison) -> TextTable:
    lines = tuple(
        ((row.title,), _cell(row.doubts.ood), _cell(row.doubts.free_ood)) for row in comparison.rows
    )
    columns = ("row", "AUROC, pair variance", "AUROC, nearest distance")
    return TextTable("Foreign queries (ours)", columns, lines, labels=1)


def _difficulty(comparison: Comparison) -> TextTable:
    """Where the data knows how corrupted each image is."""
    lines = tuple(((row.title,), _cell(row.doubts.difficulty)) for row in comparison.rows)
    columns = ("row", "rank correlation of query variance and known corruption")
    return TextTable("Known corruption (ours)", columns, lines, labels=1)


def _zero_shot(comparison: Comparison, number: int) -> TextTable:
    """The same models on data they were not trained for."""
    lines = []
    for row in comparison.rows:
        figures, doubts = row.zero_shot[number]
        cells = (*(figures.get(column) for column in ZERO_SHOT), doubts.auroc, doubts.free_auroc)
        lines.append(((row.title,), *(_cell(figure) for figure in cells)))
    return TextTable(
        f"Zero-shot (ours): {comparison.zero_shot[number]}",
        ("row", *ZERO_SHOT, "AUROC, query variance", "AUROC, training-free"),
        tuple(lines),
        labels=1,
    )


def _quoted(row: ComparedRow, column: str) -> Cell:
    if column not in row.paper:
        return EMPTY
    mark = _mark(row.footnotes[column]) if column in row.footnotes else ""
    return (f"{row.paper[column]:.3f}{mark}",)


def _cell(figure: Figure | None) -> Cell:
    """
    >>> _cell(Figure(0.6, 0.58, 0.62, std=0.01))
    ('0.600', '[0.580, 0.620]', '± 0.010')
    """
    if figure is None:
        return EMPTY
    spread = () if figure.std is None else (f"± {figure.std:.3f}",)
    return (f"{figure.value:.3f}", f"[{figure.low:.3f}, {figure.high:.3f}]", *spread)


def _paired(test: PairedTest | None) -> Cell:
    if test is None:
        return EMPTY
    found = test.difference
    return (
        f"{found.value:+.3f}",
        f"[{found.low:+.3f}, {found.high:+.3f}]",
        f"p {test.p_value:.3f}",
    )


def _mark(number: int) -> str:
    return str(number).translate(SUPERSCRIPT)
