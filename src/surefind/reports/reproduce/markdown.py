"""A comparison as Markdown, and its place in a document."""

from pathlib import Path

from surefind.errors import InvalidFile
from surefind.files import write_whole
from surefind.reports.reproduce.compare import Comparison
from surefind.reports.reproduce.table import TextTable, footnotes, tables


def to_markdown(comparison: Comparison) -> str:
    """What to know, the tables, the footnotes."""
    parts = ["\n".join(f"- {fact}" for fact in comparison.facts)]
    parts += [_table(table) for table in tables(comparison)]
    parts += [*footnotes(comparison), "\n".join(f"- {note}" for note in comparison.notes)]
    return "\n\n".join(parts) + "\n"


def into(document: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- begin NAME -->` and `<!-- end NAME -->`."""
    whole, start, end = _find(document, name)
    changed = f"{whole[:start]}\n{text.strip()}\n{whole[end:]}"
    write_whole(document, changed.encode())


def check_place(document: Path, name: str) -> None:
    """Refuse a document without such a place, before the work and not after it."""
    _find(document, name)


def _find(document: Path, name: str) -> tuple[str, int, int]:
    """The text, where the part begins and where it ends."""
    begin, finish = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    try:
        whole = document.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"cannot read {document}: {error}", fix="name a document") from error
    start = whole.find(begin) + len(begin)
    end = whole.find(finish, start)
    if begin not in whole or end < 0:
        raise InvalidFile(
            f"{document} has no place for this table",
            fix=f"write the lines {begin} and {finish} where it shall stand",
        )
    return whole, start, end


def _table(table: TextTable) -> str:
    lines = [_line(table.columns), _line(("---",) * len(table.columns))]
    lines += [_line(tuple(" ".join(cell) for cell in line)) for line in table.lines]
    return f"**{table.title}**\n\n" + "\n".join(lines)


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
