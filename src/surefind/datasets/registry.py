"""Open a data set by name, folder or file."""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from surefind.datasets.cars196 import is_cars196, read_cars196
from surefind.datasets.cub200 import is_cub200, read_cub200
from surefind.datasets.folder import read_folder
from surefind.datasets.glyphs import glyphs_folder, read_glyphs
from surefind.datasets.msls import is_msls, read_msls, split_msls
from surefind.datasets.splits import Listing, Splits, divide
from surefind.datasets.table import is_frame, read_frame, read_places, read_rows
from surefind.errors import InvalidArgument, InvalidFile
from surefind.images.catalog import Catalog
from surefind.images.decode import TABLES
from surefind.validation import check_number, check_whole

READERS: dict[str, Callable[[Path], Listing]] = {
    "cub200": read_cub200,
    "cars196": read_cars196,
    "msls": read_msls,
    "places": read_places,
    "folder": read_folder,
    "csv": read_rows,
    "glyphs": read_glyphs,
}


def open_dataset(source: str | Path, *, val_share: float = 0.1, seed: int = 0) -> Splits:
    """Open a data set and split it by class (or by area) into train, val and test.

    Splits of the data set itself are used; otherwise the first half of the classes is trained
    on and the second half tested on.

    Args:
        source: a folder, recognised by its layout; a `.csv` or `.parquet` table; `glyphs`, the
            built-in data; or `name:folder`, such as `cub200:FOLDER`.
        val_share: share of the training classes that is held out for validation.
        seed: of the choice of those classes.

    Returns:
        Catalogs to train, validate and test on.

    Raises:
        InvalidArgument: if the name of the data set or an argument is not valid.
        InvalidFile: if the folder or table does not exist or cannot be read.
        SurefindError: if the images cannot be split, e.g. have no classes.
    """
    check_number("val_share", val_share, "a share from 0 to below 1", lambda x: 0 <= x < 1)
    check_whole("seed", seed, smallest=0)
    name, place = find_reader(source)
    if name == "msls":
        return split_msls(place, val_share=val_share)
    return divide(READERS[name](place), val_share=val_share, seed=seed)


def read_catalog(source: Any) -> Catalog:
    """Return all images of a source, without splits; labels are optional.

    Args:
        source: as for `open_dataset`; or a table in memory (pandas, polars, pyarrow) with a
            column `path`.

    Raises:
        SurefindError: as `open_dataset`.
    """
    if is_frame(source):
        return read_frame(source)
    name, place = find_reader(source)
    return READERS[name](place).catalog


def read_foreign(source: str | Path) -> Catalog:
    """Return the test split of a source that has splits of its own, else all its images.

    `source` and errors are those of `open_dataset`.
    """
    name, place = find_reader(source)
    listing = READERS[name](place)
    has_splits = "train" in listing.splits and not {"val", "test"}.isdisjoint(listing.splits)
    return open_dataset(source).test if has_splits else listing.catalog


def find_reader(source: str | Path) -> tuple[str, Path]:
    """Return the name of the reader of a source, and the path that it reads.

    `glyphs` always means the built-in data; a folder of that name is `./glyphs`.
    """
    if source == "glyphs":
        return "glyphs", glyphs_folder()
    try:
        if Path(source).exists():
            return _recognise(Path(source)), Path(source)
    except OSError:  # an impossible file name, or a folder without permission
        pass
    name, colon, place = str(source).partition(":")
    near = get_close_matches(name.lower(), READERS, n=1)
    is_name = bool(colon) and len(name) > 1 and "/" not in name  # one letter: a drive of Windows
    if is_name and name not in READERS:
        raise InvalidArgument(
            "source",
            expected=f"a file, a folder, or one of {', '.join(READERS)} with a path",
            got=repr(str(source)),
            fix=f"did you mean {near[0]}:{place}?" if near else f"try folder:{place}",
        )
    if not (is_name and place):
        fix = "check the path, or use the built-in data: glyphs"
        if near and (is_name or not colon):
            fix = "did you mean " + ("glyphs?" if near[0] == "glyphs" else f"{near[0]}:FOLDER?")
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
