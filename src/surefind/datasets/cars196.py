"""Stanford Cars: either devkit, or class folders; classes 1-98 train, 99-196 test.

    cars_annos.mat  with the paths it names (car_ims/000001.jpg)
    cars_train_annos.mat, cars_test_annos_withlabels.mat  with cars_train/ and cars_test/

The annotation files may lie in the folder or in its devkit/. The devkit's own division into
training and test images is not used: it has every class on both sides.
"""

from pathlib import Path
from typing import Any
from zlib import error as ZlibError  # noqa: N812

import numpy as np

from surefind.datasets.numbered import numbered_catalog, numbered_label, split_by_number
from surefind.datasets.splits import HoldOut, Splits
from surefind.errors import InvalidFile
from surefind.images.catalog import Catalog

CLASSES = range(1, 197)
LAST_TRAINING = 98
COMBINED = "cars_annos.mat"
TRAIN, TEST = "cars_train_annos.mat", "cars_test_annos_withlabels.mat"


def is_cars196(folder: Path) -> bool:
    return any(_find(folder, name) for name in (COMBINED, TRAIN, TEST))


def cars196_catalog(folder: Path) -> Catalog:
    if combined := _find(folder, COMBINED):
        rows = _annotations(combined, "relative_im_path")
        names = _class_names(combined)
    elif is_cars196(folder):
        rows = []
        for name, images in ((TRAIN, "cars_train"), (TEST, "cars_test")):
            found = _annotations(_require(folder, name), "fname")
            rows += [(f"{images}/{path}", number) for path, number in found]
        meta = _find(folder, "cars_meta.mat")
        names = _class_names(meta) if meta else []
    else:
        return numbered_catalog(folder)
    label = {
        number: numbered_label(number, names[number - 1] if number <= len(names) else "")
        for _, number in rows
    }
    return Catalog(
        folder,
        paths=tuple(path for path, _ in rows),
        labels=tuple(label[number] for _, number in rows),
    )


def cars196_splits(folder: Path, *, hold_out: HoldOut) -> Splits:
    catalog = cars196_catalog(folder)
    return split_by_number("cars196", catalog, last_training=LAST_TRAINING, hold_out=hold_out)


def _find(folder: Path, name: str) -> Path | None:
    places = (folder / name, folder / "devkit" / name)
    return next((place for place in places if place.is_file()), None)


def _require(folder: Path, name: str) -> Path:
    if found := _find(folder, name):
        return found
    raise InvalidFile(
        f"{folder}: no {name}, here or in devkit/",
        fix="both training and test annotations are needed, the latter with labels "
        "(cars_test_annos.mat has none)",
    )


def _annotations(file: Path, path_field: str) -> list[tuple[str, int]]:
    """Path and class number of each image."""
    records = np.atleast_1d(_load(file, "annotations"))
    fields = records.dtype.names or ()
    missing = {path_field, "class"} - set(fields)
    if missing:
        raise InvalidFile(
            f"{file}: annotations without {' and '.join(sorted(missing))}",
            fix="use the annotation files of the published devkit",
        )
    rows = [(str(record[path_field]), record["class"]) for record in records]
    wrong = [number for _, number in rows if number not in CLASSES]
    if wrong:
        raise InvalidFile(
            f"{file}: expected classes from 1 to {CLASSES[-1]}, got {wrong[0]!r}",
            fix="use the annotation files of the published devkit",
        )
    return [(path, int(number)) for path, number in rows]


def _class_names(file: Path) -> list[str]:
    return [str(name) for name in np.atleast_1d(_load(file, "class_names"))]


def _load(file: Path, variable: str) -> Any:
    # Here, because it takes half a second that opening any other data does not need. The reader
    # is not made for hostile files (some mutated ones crash it): open only what you trust.
    from scipy.io import loadmat  # type: ignore[import-untyped]
    from scipy.io.matlab import MatReadError  # type: ignore[import-untyped]

    known = (OSError, ValueError, NotImplementedError, MatReadError, ZlibError)
    by_accident = (TypeError, LookupError, NameError, MemoryError)
    try:
        return loadmat(str(file), squeeze_me=True, variable_names=[variable])[variable]
    except (*known, *by_accident) as error:
        raise InvalidFile(
            f"{file}: no {variable} can be read from it: {error}",
            fix="download the file again; it must be a MATLAB file of version 7 or older",
        ) from error
