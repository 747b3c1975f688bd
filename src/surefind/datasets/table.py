"""Tables of images, CSV or Parquet, one image per row.

    path                                     required, relative to the file's folder
    label, id                                class and name of the image
    split                                    train, val, test or foreign
    lat, lon  |  latitude, longitude         degrees; metres on the Earth
    east, north                              metres
    role                                     query or database
    difficulty                               0 (clean) to 1

Other columns become metadata. These must be filled in every row, except label and role in rows of
the split `foreign`: such an image has a class of its own, and is a query.

This is the only module that imports the optional package pyarrow.
"""

import csv
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from surefind.datasets.splits import SPLITS, Listing
from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.images.catalog import Catalog, Value

FAR_M = 1e9  # metres; beyond any projection on Earth
EQUATOR_M, FLATTENING = 6_378_137.0, 1 / 298.257223563  # of the ellipsoid WGS 84
CHECKED_PATHS = 100
KNOWN = {
    "path", "label", "id", "split", "role", "difficulty",
    "lat", "lon", "latitude", "longitude", "east", "north",
}  # fmt: skip
KINDS: tuple[tuple[Callable[[str], Value], re.Pattern[str]], ...] = (
    (lambda text: text.lower() == "true", re.compile("true|false", re.IGNORECASE)),
    (int, re.compile(r"0|-?[1-9]\d{0,14}")),  # not 007: the zeros may mean something
    (float, re.compile(r"-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)),
)
MISSING = ("None", "nan", "NaN", "<NA>", "NaT")  # values of tables in memory, as text
TRUTH = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


@dataclass(frozen=True)
class Table:
    """Columns of text by lower-case name, and the line number of each row."""

    file: Path
    columns: dict[str, tuple[str, ...]]
    lines: tuple[int, ...]
    line: str = "line"  # what these are called

    def text(self, column: str) -> tuple[str, ...]:
        if column not in self.columns:
            near = get_close_matches(column, self.columns, n=1)
            raise InvalidFile(
                f"{self.file}: no column {column!r}, only {', '.join(filter(None, self.columns))}",
                fix=f"rename {near[0]!r} to {column!r}" if near else f"add a column {column!r}",
            )
        return self.columns[column]

    def numbers(self, column: str, *, low: float, high: float) -> list[float]:
        """Parse finite numbers from `low` to `high`."""
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

    def distinct(self, column: str) -> tuple[str, ...]:
        seen: dict[str, int] = {}
        for row, value in enumerate(self.text(column)):
            first = seen.setdefault(value, row)
            if first != row:
                other = f"another than that of {self.line} {self.lines[first]}"
                self.reject(row, column, expected=other)
        return self.columns[column]

    def reject(self, row: int, column: str, *, expected: str) -> NoReturn:
        raise InvalidFile(
            f"{self.file}, {self.line} {self.lines[row]}: {column} must be {expected}, "
            f"got {self.columns[column][row]!r}"
        )


def read_table(file: Path) -> Table:
    """Read a `.parquet` file, or else comma-separated text with a header line."""
    if not file.is_file():
        raise InvalidFile(f"{file}: no such file")
    if file.suffix.lower() == ".parquet":
        header, rows = read_parquet(file)
        lines = tuple(range(1, len(rows) + 1))
    else:
        header, rows, lines = _read_csv(file)
    if not rows:
        raise InvalidFile(f"{file}: no rows")
    names = (name.strip().lower() for name in header)
    return Table(file, dict(zip(names, zip(*rows, strict=True), strict=True)), lines)


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
                        f"{file}, line {reader.line_num}: {len(cells)} values under {len(header)} column names",
                        fix="quote values that contain a comma",
                    )
                rows.append([cell.strip() for cell in cells])
                lines.append(reader.line_num)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidFile(f"{file}: cannot be read as CSV: {error}") from error
    return header, rows, tuple(lines)


def read_parquet(file: Path) -> tuple[list[str], list[list[str]]]:
    """Return column names and rows, every value as text; a missing value is empty."""
    parquet = pyarrow_package("pyarrow.parquet", file)
    try:
        table = parquet.read_table(file)
    except (OSError, ValueError) as error:  # pyarrow's errors derive from these
        raise InvalidFile(f"{file}: cannot be read as Parquet: {error}") from error
    columns = [["" if value is None else str(value) for value in c.to_pylist()] for c in table]
    return table.column_names, [list(row) for row in zip(*columns, strict=True)]


def pyarrow_package(name: str, file: Path | str) -> Any:
    """Import a module of pyarrow, or raise an error that names the extra."""
    try:
        return import_module(name)
    except ImportError as error:
        raise SurefindError(
            f"{file}: Parquet files need the package pyarrow", fix="pip install 'surefind[parquet]', or use a .csv"
        ) from error


def read_places(file: Path) -> Listing:
    """Read photos of places, which match by position; labels are ignored."""
    listing = read_rows(file)
    if not listing.catalog.positions:
        raise InvalidFile(
            f"{file}: no positions", fix="add the columns lat and lon (degrees), or east and north (metres)"
        )
    return listing._replace(catalog=replace(listing.catalog, labels=()))


def read_rows(file: Path) -> Listing:
    """Read all images of a table."""
    return _list_rows(read_table(file), file.parent)


def is_frame(images: object) -> bool:
    """Whether this is a table in memory, of pandas, polars or pyarrow."""
    return hasattr(images, "columns") and hasattr(images, "__getitem__")


def read_frame(frame: Any) -> Catalog:
    """Read a table in memory; paths are absolute, or relative to the working directory."""
    names = list(getattr(frame, "column_names", frame.columns))
    columns = {
        str(name).strip().lower(): tuple(
            "" if str(value) in MISSING else str(value)
            for value in getattr(frame[name], "to_pylist", frame[name].__iter__)()
        )
        for name in names
    }
    count = len(next(iter(columns.values()), ()))
    table = Table(Path("table"), columns, tuple(range(count)), line="row")
    if not count:
        raise InvalidArgument("images", expected="a table with rows", got="none")
    given = table.text("path")
    if "" in given:
        table.reject(given.index(""), "path", expected="a file")
    files = [Path(path).absolute() for path in given]
    root = Path(os.path.commonpath([file.parent for file in files]))
    columns["path"] = tuple(file.relative_to(root).as_posix() for file in files)
    columns.setdefault("id", given)
    return _list_rows(table, root).catalog


def _list_rows(table: Table, root: Path) -> Listing:
    splits = table.choices("split", SPLITS) if "split" in table.columns else ()
    foreign = [split == "foreign" for split in splits] or [False] * len(table.lines)
    paths = _paths(table, root)
    ids = table.distinct("id") if "id" in table.columns else ()
    if "" in ids:
        table.reject(ids.index(""), "id", expected="a name")
    labels = list(table.text("label")) if "label" in table.columns else []
    for row, label in enumerate(labels):
        if not (label or foreign[row]):
            table.reject(row, "label", expected="the name of a class")
        labels[row] = label or paths[row]
    roles = table.choices("role", ("", "query", "database")) if "role" in table.columns else ()
    for row, role in enumerate(roles):
        if not (role or foreign[row]):
            table.reject(row, "role", expected="query or database")
    difficulty = table.numbers("difficulty", low=0, high=1) if "difficulty" in table.columns else ()
    catalog = Catalog(
        root=root,
        paths=paths,
        ids=ids,
        labels=tuple(labels),
        positions=_positions(table),
        queries=tuple(role != "database" for role in roles),
        difficulty=tuple(difficulty),
        extra=_extra(table),
    )
    return Listing(table.file.stem, catalog, splits)


def _extra(table: Table) -> tuple[dict[str, Value], ...]:
    """Further columns, as numbers or true and false if all their values are; "" is left out."""
    rows: list[dict[str, Value]] = [{} for _ in range(len(table.lines))]
    for name in table.columns.keys() - KNOWN - {""}:
        texts = table.columns[name]
        convert = next((kind for kind, fits in KINDS if all(fits.fullmatch(text) for text in texts if text)), str)
        for row, text in zip(rows, texts, strict=True):
            if text:
                row[name] = convert(text)
    return tuple(rows) if any(rows) else ()


def _paths(table: Table, root: Path) -> tuple[str, ...]:
    paths = table.text("path") if "id" in table.columns else table.distinct("path")
    for row, path in enumerate(paths):
        if not path or path[0] == "/" or ".." in path.split("/") or "\0" in path:
            table.reject(row, "path", expected="a file below the table's folder")
    # Not all: that would take minutes on a network disk.
    if not any((root / path).is_file() for path in paths[:CHECKED_PATHS]):
        raise InvalidFile(
            f"{table.file}: none of its first images exists, such as {paths[0]!r}", fix=f"paths are relative to {root}"
        )
    return paths


def _positions(table: Table) -> tuple[tuple[float, ...], ...]:
    for lat, lon in (("lat", "lon"), ("latitude", "longitude")):
        if lat in table.columns or lon in table.columns:
            degrees = table.numbers(lat, low=-90, high=90), table.numbers(lon, low=-180, high=180)
            return tuple(map(tuple, earth_positions(*map(np.array, degrees)).tolist()))
    if "east" in table.columns or "north" in table.columns:
        east, north = (table.numbers(axis, low=-FAR_M, high=FAR_M) for axis in ("east", "north"))
        return tuple(zip(east, north, strict=True))
    return ()


def earth_positions(lat: NDArray[np.float64], lon: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return points on WGS 84 in metres from the Earth's centre, (N, 3), of degrees (N,).

    At 25 m, these distances differ from those on the ground by less than 1 nm.
    """
    phi, lam, squeezed = np.deg2rad(lat), np.deg2rad(lon), (1 - FLATTENING) ** 2
    radius = EQUATOR_M / np.sqrt(np.cos(phi) ** 2 + squeezed * np.sin(phi) ** 2)
    axes = np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), squeezed * np.sin(phi)
    positions: NDArray[np.float64] = radius[:, None] * np.stack(axes, axis=1)
    return positions
