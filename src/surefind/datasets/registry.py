"""Open data by a name, a folder or a file."""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from surefind.datasets.cars196 import is_cars196, read_cars196, split_cars196
from surefind.datasets.cub200 import is_cub200, read_cub200, split_cub200
from surefind.datasets.folder import read_folder, split_folder
from surefind.datasets.glyphs import glyphs_folder, read_glyphs, split_glyphs
from surefind.datasets.msls import is_msls, read_msls, split_msls
from surefind.datasets.splits import HoldOut, Listing, Splits
from surefind.datasets.table import read_places, read_rows, split_places, split_rows
from surefind.errors import InvalidArgument, InvalidFile
from surefind.images.catalog import Catalog


class Reader(NamedTuple):
    """The two ways to read a data set: whole, or as splits."""

    read: Callable[[Path], Listing]
    split: Callable[[Path, HoldOut], Splits]


READERS = {
    "cub200": Reader(read_cub200, split_cub200),
    "cars196": Reader(read_cars196, split_cars196),
    "msls": Reader(read_msls, split_msls),
    "places": Reader(read_places, split_places),
    "folder": Reader(read_folder, split_folder),
    "csv": Reader(read_rows, split_rows),
    "glyphs": Reader(read_glyphs, split_glyphs),
}
TABLES = (".csv", ".parquet")


def open_dataset(source: str | Path, *, val_share: float = 0.1, seed: int = 0) -> Splits:
    """The splits of a folder, a `.csv` or `.parquet` file, `glyphs`, or `name:place`.

    A folder is recognised by its layout; `cub200:FOLDER` and the like insist on one. Where the
    data does not say otherwise, its first classes are trained on and its last tested on, and
    `val_share` of the training classes, drawn by `seed`, is held out to validate on.
    """
    if not 0 <= val_share < 1:
        raise InvalidArgument(
            "val_share", expected="a share from 0 to below 1", got=repr(val_share)
        )
    if seed < 0:
        raise InvalidArgument("seed", expected="0 or more", got=repr(seed))
    reader, place = find_reader(source)
    return reader.split(place, HoldOut(val_share, seed))


def read_catalog(source: str | Path) -> Catalog:
    """All images of a source, without splits; labels are not needed."""
    reader, place = find_reader(source)
    return reader.read(place).catalog


def read_foreign(source: str | Path) -> Catalog:
    """Images that belong to another data set: its test split if it has splits of its own, else all.

    As in the paper, where queries of Cars-196 are foreign to birds: classes 99 to 196.
    """
    reader, place = find_reader(source)
    listing = reader.read(place)
    return reader.split(place, HoldOut()).test if listing.has_splits else listing.catalog


def find_reader(source: str | Path) -> tuple[Reader, Path]:
    """Who reads a source, and from where.

    `glyphs` alone always means the built-in data; write `./glyphs` for a folder of that name.
    """
    if source == "glyphs":
        return READERS["glyphs"], glyphs_folder()
    if _exists(Path(source)):
        return READERS[_recognise(Path(source))], Path(source)
    name, colon, place = str(source).partition(":")
    if not colon or len(name) < 2 or "/" in name:  # one letter: a drive of Windows
        raise _not_found(str(source))
    if name not in READERS:
        near = get_close_matches(name.lower(), READERS, n=1)
        raise InvalidArgument(
            "source",
            expected=f"a file, a folder, or one of {', '.join(READERS)} with its place",
            got=repr(str(source)),
            fix=f"did you mean {near[0]}:{place}?" if near else f"try folder:{place}",
        )
    if not place:
        raise _not_found(name)
    return READERS[name], Path(place).expanduser()


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except OSError:  # a name that no file can have, a folder that may not be looked into
        return False


def _recognise(place: Path) -> str:
    if place.is_dir():
        known = {"cub200": is_cub200, "cars196": is_cars196, "msls": is_msls}
        return next((name for name, fits in known.items() if fits(place)), "folder")
    if place.suffix.lower() in TABLES:
        return "csv"
    raise InvalidFile(
        f"{place}: neither a folder nor a table of images",
        fix=f"name a folder, or a file that ends in {' or '.join(TABLES)}",
    )


def _not_found(source: str) -> InvalidFile:
    near = get_close_matches(source.lower(), READERS, n=1)
    fix = "check the path, or use the built-in data: glyphs"
    if near:
        fix = "did you mean glyphs?" if near == ["glyphs"] else f"say where it is: {near[0]}:FOLDER"
    return InvalidFile(f"{source}: no such file or folder", fix=fix)
