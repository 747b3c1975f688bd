"""The one door to data: a name, a folder or a file, and the closed table of who reads it."""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple, Protocol

from surefind.datasets.cars196 import cars196_catalog, cars196_splits, is_cars196
from surefind.datasets.cub200 import cub200_catalog, cub200_splits, is_cub200
from surefind.datasets.folder import folder_catalog, folder_has_splits, folder_splits
from surefind.datasets.glyphs import glyphs_catalog, glyphs_folder, glyphs_splits
from surefind.datasets.msls import is_msls, msls_catalog, msls_has_splits, msls_splits
from surefind.datasets.places import places_catalog, places_splits
from surefind.datasets.rows import rows_catalog, rows_have_splits, rows_splits
from surefind.datasets.splits import HoldOut, Splits, check_hold_out
from surefind.errors import InvalidArgument, InvalidFile
from surefind.images.catalog import Catalog


class _ToSplits(Protocol):
    def __call__(self, place: Path, /, *, hold_out: HoldOut) -> Splits: ...


class Reader(NamedTuple):
    """The two ways to read a data set: whole, or as splits."""

    catalog: Callable[[Path], Catalog]
    splits: _ToSplits
    has_splits: Callable[[Path], bool] = lambda _: True  # of its own; any labels can be halved


READERS = {
    "cub200": Reader(cub200_catalog, cub200_splits),
    "cars196": Reader(cars196_catalog, cars196_splits),
    "msls": Reader(msls_catalog, msls_splits, msls_has_splits),
    "places": Reader(places_catalog, places_splits, rows_have_splits),
    "folder": Reader(folder_catalog, folder_splits, folder_has_splits),
    "csv": Reader(rows_catalog, rows_splits, rows_have_splits),
    "glyphs": Reader(glyphs_catalog, glyphs_splits),
}
TABLES = (".csv", ".parquet")


def open_dataset(source: str | Path, *, val_share: float = 0.1, seed: int = 0) -> Splits:
    """The splits of a folder, a `.csv` or `.parquet` file, `glyphs`, or `name:place`.

    A folder is recognised by its layout; `cub200:FOLDER` and the like insist on one. Where the
    data does not say otherwise, its first classes are trained on and its last tested on, and
    `val_share` of the training classes, drawn by `seed`, is held out to validate on.
    """
    hold_out = HoldOut(val_share, seed)
    check_hold_out(hold_out)
    reader, place = find_reader(source)
    return reader.splits(place, hold_out=hold_out)


def read_catalog(source: str | Path) -> Catalog:
    """All images of a source, without splits; labels are not needed."""
    reader, place = find_reader(source)
    return reader.catalog(place)


def read_foreign(source: str | Path) -> Catalog:
    """Images that belong to another data set: its test split if it has splits of its own, else all.

    As in the paper, where queries of Cars-196 are foreign to birds: classes 99 to 196.
    """
    reader, place = find_reader(source)
    if reader.has_splits(place):
        return reader.splits(place, hold_out=HoldOut()).test
    return reader.catalog(place)


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
