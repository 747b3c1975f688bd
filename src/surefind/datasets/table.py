"""Tables of text from CSV or Parquet files, with errors that name the line."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import NoReturn

from surefind.datasets.parquet import read_parquet
from surefind.errors import InvalidFile

TRUTH = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


@dataclass(frozen=True)
class Table:
    """Columns of text by lower-case name, and the line of the file that each row stands on."""

    file: Path
    columns: dict[str, tuple[str, ...]]
    lines: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.lines)

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def text(self, column: str) -> tuple[str, ...]:
        if column not in self.columns:
            near = get_close_matches(column, self.columns, n=1)
            raise InvalidFile(
                f"{self.file}: no column {column!r}, only {', '.join(filter(None, self.columns))}",
                fix=f"rename {near[0]!r} to {column!r}" if near else f"add a column {column!r}",
            )
        return self.columns[column]

    def numbers(self, column: str, *, low: float, high: float) -> list[float]:
        """Finite numbers from `low` to `high`."""
        found = []
        for row, text in enumerate(self.text(column)):
            try:
                value = float(text)
            except ValueError:
                value = float("nan")
            if not (isfinite(value) and low <= value <= high):
                self.reject(row, column, expected=f"a number from {low:g} to {high:g}")
            found.append(value)
        return found

    def truths(self, column: str) -> list[bool]:
        found = [TRUTH.get(text.lower()) for text in self.text(column)]
        if None in found:
            self.reject(found.index(None), column, expected="true or false")
        return [value is True for value in found]

    def choices(self, column: str, allowed: Sequence[str]) -> tuple[str, ...]:
        found = tuple(text.lower() for text in self.text(column))
        for row, value in enumerate(found):
            if value not in allowed:
                self.reject(row, column, expected=" or ".join(filter(None, allowed)))
        return found

    def reject(self, row: int, column: str, *, expected: str, fix: str = "") -> NoReturn:
        raise InvalidFile(
            f"{self.file}, line {self.lines[row]}: {column} must be {expected}, "
            f"got {self.columns[column][row]!r}",
            fix=fix or "correct that line, or remove it",
        )


def read_table(file: Path) -> Table:
    """A `.parquet` file, or else comma-separated text with a header line."""
    if not file.is_file():
        raise InvalidFile(f"{file}: no such file", fix="check the path, and that it is readable")
    if file.suffix.lower() == ".parquet":
        header, rows = read_parquet(file)
        lines = tuple(range(1, len(rows) + 1))
    else:
        header, rows, lines = _read_csv(file)
    header = [name.strip().lower() for name in header]
    if not rows:
        raise InvalidFile(f"{file}: no rows", fix="write a header line and one line per image")
    columns = zip(*rows, strict=True)
    return Table(file, dict(zip(header, columns, strict=True)), lines)


def _read_csv(file: Path) -> tuple[list[str], list[list[str]], tuple[int, ...]]:
    header: list[str] = []
    rows, lines = [], []
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            reader = csv.reader(text)
            for cells in reader:
                if not cells:
                    continue
                if not header:
                    header = cells
                    continue
                if len(cells) != len(header):
                    raise InvalidFile(
                        f"{file}, line {reader.line_num}: {len(cells)} values under "
                        f"{len(header)} column names",
                        fix="separate values by commas, and quote values that hold a comma",
                    )
                rows.append([cell.strip() for cell in cells])
                lines.append(reader.line_num)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidFile(
            f"{file}: cannot be read as CSV: {error}",
            fix="save it as comma-separated UTF-8 text",
        ) from error
    return header, rows, tuple(lines)
