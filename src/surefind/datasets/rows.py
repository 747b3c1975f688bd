"""A CSV or Parquet file with one image a row: path, and what is known about it.

    path                                     required, relative to the file's folder
    label, id                                class and name of the image
    split                                    train, val, test or foreign
    lat, lon  |  latitude, longitude         degrees; projected to metres
    east, north                              metres
    role                                     query or database
    difficulty                               0 (clean) to 1

Other columns are ignored. A column that is there is filled in every row; only rows of the split
`foreign` may leave label and role empty: such an image has a class of its own, and is a query.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surefind.datasets.dividing import divide
from surefind.datasets.splits import PARTS, HoldOut, Listing, Splits
from surefind.datasets.table import Table, read_table
from surefind.errors import InvalidFile
from surefind.images.catalog import Catalog

ROLES = ("query", "database")
FAR_M = 1e9  # metres; beyond any projection on Earth
EQUATOR_M, FLATTENING = 6_378_137.0, 1 / 298.257223563  # of the ellipsoid WGS 84
LOOKED_AT = 100


def rows_catalog(file: Path) -> Catalog:
    return read_rows(file).catalog


def rows_have_splits(file: Path) -> bool:
    return read_rows(file).has_splits


def rows_splits(file: Path, *, hold_out: HoldOut) -> Splits:
    return divide(file.stem, read_rows(file), hold_out=hold_out)


def read_rows(file: Path) -> Listing:
    table = read_table(file)
    parts = table.choices("split", PARTS) if "split" in table else ()
    paths = _paths(table)
    catalog = Catalog(
        root=file.parent,
        paths=paths,
        ids=_ids(table),
        labels=_labels(table, parts, paths),
        positions=_positions(table),
        queries=_queries(table, parts),
        difficulty=(
            tuple(table.numbers("difficulty", low=0, high=1)) if "difficulty" in table else ()
        ),
    )
    return Listing(catalog, parts)


def _paths(table: Table) -> tuple[str, ...]:
    paths = table.text("path")
    seen: dict[str, int] = {}
    for row, path in enumerate(paths):
        if not path or path[0] == "/" or ".." in path.split("/") or "\0" in path:
            table.reject(
                row,
                "path",
                expected="a file below the table's folder",
                fix=f"write it relative to {table.file.parent}, or move the table",
            )
        if path in seen and "id" not in table:
            first = table.lines[seen[path]]
            table.reject(row, "path", expected=f"another than that of line {first}")
        seen[path] = row
    # Looking at every file would take minutes on a network disk; a wrong folder misses them all.
    if not any((table.file.parent / path).is_file() for path in paths[:LOOKED_AT]):
        raise InvalidFile(
            f"{table.file}: none of its first images is there, such as {paths[0]!r}",
            fix=f"paths are relative to the table's folder, {table.file.parent}",
        )
    return paths


def _ids(table: Table) -> tuple[str, ...]:
    if "id" not in table:
        return ()
    ids = table.text("id")
    seen: dict[str, int] = {}
    for row, name in enumerate(ids):
        if not name:
            table.reject(row, "id", expected="a name")
        if name in seen:
            first = table.lines[seen[name]]
            table.reject(row, "id", expected=f"another than that of line {first}")
        seen[name] = row
    return ids


def _labels(table: Table, parts: tuple[str, ...], paths: tuple[str, ...]) -> tuple[str, ...]:
    if "label" not in table:
        return ()
    labels = list(table.text("label"))
    for row, label in enumerate(labels):
        if not label:
            if not _is_foreign(parts, row):
                table.reject(row, "label", expected="the name of a class")
            labels[row] = paths[row]
    return tuple(labels)


def _queries(table: Table, parts: tuple[str, ...]) -> tuple[bool, ...]:
    if "role" not in table:
        return ()
    roles = table.choices("role", ("", *ROLES))
    for row, role in enumerate(roles):
        if not role and not _is_foreign(parts, row):
            table.reject(row, "role", expected="query or database")
    return tuple(role != "database" for role in roles)


def _positions(table: Table) -> tuple[tuple[float, ...], ...]:
    for lat, lon in (("lat", "lon"), ("latitude", "longitude")):
        if lat in table or lon in table:
            degrees = table.numbers(lat, low=-90, high=90), table.numbers(lon, low=-180, high=180)
            return tuple(map(tuple, earth_positions(*map(np.array, degrees)).tolist()))
    if "east" in table or "north" in table:
        east, north = (table.numbers(axis, low=-FAR_M, high=FAR_M) for axis in ("east", "north"))
        return tuple(zip(east, north, strict=True))
    return ()


def earth_positions(lat: NDArray[np.float64], lon: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return points on WGS 84 in metres from the Earth's centre, (N, 3), of degrees (N,).

    Near points are as far apart there as on the ground: at 25 m the difference is below 1 nm.
    """
    phi, lam, squeezed = np.deg2rad(lat), np.deg2rad(lon), (1 - FLATTENING) ** 2
    radius = EQUATOR_M / np.sqrt(np.cos(phi) ** 2 + squeezed * np.sin(phi) ** 2)
    axes = np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), squeezed * np.sin(phi)
    positions: NDArray[np.float64] = radius[:, None] * np.stack(axes, axis=1)
    return positions


def _is_foreign(parts: tuple[str, ...], row: int) -> bool:
    return bool(parts) and parts[row] == "foreign"
