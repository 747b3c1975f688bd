"""Parquet files, by the optional package pyarrow; nothing else imports it."""

from importlib import import_module
from pathlib import Path
from typing import Any

from surefind.errors import InvalidFile, SurefindError


def read_parquet(file: Path) -> tuple[list[str], list[list[str]]]:
    """Column names and rows, every value as text; a missing value is empty text."""
    parquet = pyarrow_package("pyarrow.parquet", file)
    try:
        table = parquet.read_table(file)
    except (OSError, ValueError) as error:  # pyarrow's own errors are children of these
        raise InvalidFile(
            f"{file}: cannot be read as Parquet: {error}", fix="write the file again"
        ) from error
    columns = [["" if value is None else str(value) for value in c.to_pylist()] for c in table]
    return table.column_names, [list(row) for row in zip(*columns, strict=True)]


def pyarrow_package(name: str, file: Path | str) -> Any:
    """A module of it, or an error that says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise SurefindError(
            f"{file}: Parquet files need the package pyarrow",
            fix="pip install 'surefind[parquet]', or use a .csv",
        ) from error
