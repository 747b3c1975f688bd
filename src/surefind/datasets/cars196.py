"""Stanford Cars: either devkit, or class folders; classes 1-98 train, 99-196 test.

    cars_annos.mat  with the paths it names (car_ims/000001.jpg)
    cars_train_annos.mat, cars_test_annos_withlabels.mat  with cars_train/ and cars_test/

The annotation files may be in the folder or in its devkit/. The devkit's own split is not used:
it has every class on both sides.
"""

from pathlib import Path
from typing import Any

import numpy as np

from surefind.datasets.folder import list_by_number, numbered_label, read_numbered
from surefind.datasets.splits import Listing
from surefind.errors import InvalidFile
from surefind.images.catalog import Catalog

CLASSES = range(1, 197)
LAST_TRAINING = 98
COMBINED = "cars_annos.mat"
TRAIN, TEST = "cars_train_annos.mat", "cars_test_annos_withlabels.mat"


def is_cars196(folder: Path) -> bool:
    return any(_find(folder, name) for name in (COMBINED, TRAIN, TEST))


def read_cars196(folder: Path) -> Listing:
    if not is_cars196(folder):
        return read_numbered("cars196", folder, LAST_TRAINING)
    combined = _find(folder, COMBINED)
    named = combined or _find(folder, "cars_meta.mat")
    if combined is not None:
        rows = _annotations(combined, "relative_im_path")
    else:
        rows = []
        for name, images in ((TRAIN, "cars_train"), (TEST, "cars_test")):
            file = _find(folder, name)
            if file is None:
                raise InvalidFile(
                    f"{folder}: no {name}, here or in devkit/", fix="add it; cars_test_annos.mat has no labels"
                )
            rows += [(f"{images}/{path}", number) for path, number in _annotations(file, "fname")]
    names = [] if named is None else list(np.atleast_1d(_load(named, "class_names")))
    label = {
        number: numbered_label(number, str(names[number - 1]) if number <= len(names) else "") for _, number in rows
    }
    catalog = Catalog(folder, paths=tuple(path for path, _ in rows), labels=tuple(label[number] for _, number in rows))
    return list_by_number("cars196", catalog, LAST_TRAINING)


def _find(folder: Path, name: str) -> Path | None:
    places = (folder / name, folder / "devkit" / name)
    return next((place for place in places if place.is_file()), None)


def _annotations(file: Path, path_field: str) -> list[tuple[str, int]]:
    """Path and class number of each image."""
    records = np.atleast_1d(_load(file, "annotations"))
    missing = {path_field, "class"} - set(records.dtype.names or ())
    if missing:
        raise InvalidFile(f"{file}: annotations without {' and '.join(sorted(missing))}")
    wrong = [number for number in records["class"] if number not in CLASSES]
    if wrong:
        raise InvalidFile(f"{file}: expected classes from 1 to {CLASSES[-1]}, got {wrong[0]!r}")
    return [(str(record[path_field]), int(record["class"])) for record in records]


def _load(file: Path, variable: str) -> Any:
    # Imported here: it takes half a second. The reader is not made for untrusted files.
    from scipy.io import loadmat  # type: ignore[import-untyped]

    try:
        return loadmat(str(file), squeeze_me=True, variable_names=[variable])[variable]
    except Exception as error:  # on a damaged file nearly anything
        raise InvalidFile(
            f"{file}: cannot read {variable}: {error}",
            fix="download it again; it must be a MATLAB file of version 7 or older",
        ) from error
