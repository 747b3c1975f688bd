"""Photos of places: any table with a position for each image, in which near images match."""

from dataclasses import replace
from pathlib import Path

from surefind.datasets.dividing import divide
from surefind.datasets.rows import read_rows
from surefind.datasets.splits import HoldOut, Listing, Splits
from surefind.errors import InvalidFile
from surefind.images.catalog import Catalog


def places_catalog(file: Path) -> Catalog:
    return _read_places(file).catalog


def places_splits(file: Path, *, hold_out: HoldOut) -> Splits:
    return divide(file.stem, _read_places(file), hold_out=hold_out)


def _read_places(file: Path) -> Listing:
    """Labels are left out: here a match is a matter of distance."""
    catalog, parts = read_rows(file)
    if not catalog.positions:
        raise InvalidFile(
            f"{file}: no positions",
            fix="add the columns lat and lon (degrees), or east and north (metres)",
        )
    return Listing(replace(catalog, labels=()), parts)
