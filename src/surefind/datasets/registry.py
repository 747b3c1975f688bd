"""Open data by a name, a folder or a file."""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from surefind.datasets.cars196 import is_cars196, read_cars196
from surefind.datasets.cub200 import is_cub200, read_cub200
from surefind.datasets.folder import read_folder
from surefind.datasets.glyphs import glyphs_folder, read_glyphs
from surefind.datasets.msls import is_msls, read_msls, split_msls
from surefind.datasets.splits import HoldOut, Listing, Splits, divide
from surefind.datasets.table import read_places, read_rows
from surefind.errors import InvalidArgument, InvalidFile
from surefind.images.catalog import Catalog

READERS: dict[str, Callable[[Path], Listing]] = {
    "cub200": read_cub200,
    "cars196": read_cars196,
    "msls": read_msls,
    "places": read_places,
    "folder": read_folder,
    "csv": read_rows,
    "glyphs": read_glyphs,
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
    return _split(*find_reader(source), HoldOut(val_share, seed))


def read_catalog(source: str | Path) -> Catalog:
    """All images of a source, without splits; labels are not needed."""
    name, place = find_reader(source)
    return READERS[name](place).catalog


def read_foreign(source: str | Path) -> Catalog:
    """Images of another data set: its test split if it has splits of its own, else all."""
    name, place = find_reader(source)
    listing = READERS[name](place)
    return _split(name, place, HoldOut()).test if listing.has_splits else listing.catalog


def _split(name: str, place: Path, hold_out: HoldOut) -> Splits:
    if name == "msls":
        return split_msls(place, hold_out)
    return divide(READERS[name](place), hold_out)


def find_reader(source: str | Path) -> tuple[str, Path]:
    """The name of the reader of a source, and the place that it reads.

    `glyphs` alone always means the built-in data; write `./glyphs` for a folder of that name.
    """
    if source == "glyphs":
        return "glyphs", glyphs_folder()
    try:
        if Path(source).exists():
            return _recognise(Path(source)), Path(source)
    except OSError:  # a name that no file can have, a folder that may not be looked into
        pass
    name, colon, place = str(source).partition(":")
    near = get_close_matches(name.lower(), READERS, n=1)
    is_name = bool(colon) and len(name) > 1 and "/" not in name  # one letter: a drive of Windows
    if is_name and name not in READERS:
        raise InvalidArgument(
            "source",
            expected=f"a file, a folder, or one of {', '.join(READERS)} with its place",
            got=repr(str(source)),
            fix=f"did you mean {near[0]}:{place}?" if near else f"try folder:{place}",
        )
    if not (is_name and place):
        fix = "check the path, or use the built-in data: glyphs"
        if near and (is_name or not colon):
            known = near[0]
            fix = (
                "did you mean glyphs?" if known == "glyphs" else f"say where it is: {known}:FOLDER"
            )
        raise InvalidFile(f"{source}: no such file or folder", fix=fix)
    return name, Path(place).expanduser()


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
