"""Data sets of numbered classes: the first half to train on, the rest to test on.

Caltech-UCSD Birds, as published in 2011 or as class folders:

    images.txt              <image> <path below images/>
    image_class_labels.txt  <image> <class>
    classes.txt             <class> <name>, where present

Stanford Cars, by either devkit or as class folders:

    cars_annos.mat  with the paths it names (car_ims/000001.jpg)
    cars_train_annos.mat, cars_test_annos_withlabels.mat  with cars_train/ and cars_test/

The annotation files of the cars may be in the folder or in its devkit/. The devkit's own split is
not used: it has every class on both sides.
"""

import re
from pathlib import Path
from typing import Any
from zlib import error as ZlibError  # noqa: N812

import numpy as np

from surefind.datasets.folder import read_folder
from surefind.datasets.splits import Listing
from surefind.errors import InvalidFile
from surefind.images.catalog import Catalog

NUMBERED = re.compile(r"\d{1,4}(\.|$)")
CUB_LAST_TRAINING = 100
CARS_LAST_TRAINING, CARS_CLASSES = 98, range(1, 197)
COMBINED = "cars_annos.mat"
TRAIN, TEST = "cars_train_annos.mat", "cars_test_annos_withlabels.mat"


def is_cub200(folder: Path) -> bool:
    return (folder / "images.txt").is_file() and (folder / "image_class_labels.txt").is_file()


def read_cub200(folder: Path) -> Listing:
    if not is_cub200(folder):
        return read_numbered("cub200", folder, CUB_LAST_TRAINING)
    paths = _read_pairs(folder / "images.txt")
    classes = _read_pairs(folder / "image_class_labels.txt")
    if odd := set(paths) ^ set(classes):
        raise InvalidFile(
            f"{folder}: image {min(odd)} is in only one of images.txt and image_class_labels.txt"
        )
    if wrong := [number for number in classes.values() if not number.isdecimal()]:
        raise InvalidFile(f"{folder / 'image_class_labels.txt'}: class {wrong[0]!r} is no number")
    names = _read_pairs(folder / "classes.txt") if (folder / "classes.txt").is_file() else {}
    # Published names carry their number already: 001.Black_footed_Albatross.
    label = {
        n: numbered_label(int(n), names.get(n, "").partition(".")[2]) for n in classes.values()
    }
    catalog = Catalog(
        folder,
        paths=tuple(f"images/{path}" for path in paths.values()),
        labels=tuple(label[classes[image]] for image in paths),
    )
    return list_by_number("cub200", catalog, CUB_LAST_TRAINING)


def _read_pairs(file: Path) -> dict[str, str]:
    """The first word of each line with the rest of it."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{file}: cannot be read: {error}") from error
    pairs: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        key, _, value = line.strip().partition(" ")
        if key and (not value or key in pairs):
            raise InvalidFile(
                f"{file}, line {number}: expected a new number and a value, got {line!r}"
            )
        if key:
            pairs[key] = value.strip()
    return pairs


def is_cars196(folder: Path) -> bool:
    return any(_find(folder, name) for name in (COMBINED, TRAIN, TEST))


def read_cars196(folder: Path) -> Listing:
    if not is_cars196(folder):
        return read_numbered("cars196", folder, CARS_LAST_TRAINING)
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
                    f"{folder}: no {name}, here or in devkit/",
                    fix="add it; cars_test_annos.mat has no labels",
                )
            rows += [(f"{images}/{path}", number) for path, number in _annotations(file, "fname")]
    names = [] if named is None else list(np.atleast_1d(_load(named, "class_names")))
    label = {
        number: numbered_label(number, str(names[number - 1]) if number <= len(names) else "")
        for _, number in rows
    }
    catalog = Catalog(
        folder,
        paths=tuple(path for path, _ in rows),
        labels=tuple(label[number] for _, number in rows),
    )
    return list_by_number("cars196", catalog, CARS_LAST_TRAINING)


def _find(folder: Path, name: str) -> Path | None:
    places = (folder / name, folder / "devkit" / name)
    return next((place for place in places if place.is_file()), None)


def _annotations(file: Path, path_field: str) -> list[tuple[str, int]]:
    """Path and class number of each image."""
    records = np.atleast_1d(_load(file, "annotations"))
    missing = {path_field, "class"} - set(records.dtype.names or ())
    if missing:
        raise InvalidFile(f"{file}: annotations without {' and '.join(sorted(missing))}")
    wrong = [number for number in records["class"] if number not in CARS_CLASSES]
    if wrong:
        raise InvalidFile(
            f"{file}: expected classes from 1 to {CARS_CLASSES[-1]}, got {wrong[0]!r}"
        )
    return [(str(record[path_field]), int(record["class"])) for record in records]


def _load(file: Path, variable: str) -> Any:
    # Imported here: it takes half a second. The reader is not made for untrusted files.
    from scipy.io import loadmat  # type: ignore[import-untyped]
    from scipy.io.matlab import MatReadError  # type: ignore[import-untyped]

    known = (OSError, ValueError, NotImplementedError, MatReadError, ZlibError)
    damaged = (TypeError, LookupError, NameError, MemoryError)
    try:
        return loadmat(str(file), squeeze_me=True, variable_names=[variable])[variable]
    except (*known, *damaged) as error:
        raise InvalidFile(
            f"{file}: cannot read {variable}: {error}",
            fix="download it again; it must be a MATLAB file of version 7 or older",
        ) from error


def read_numbered(name: str, folder: Path, last_training: int) -> Listing:
    """List class folders named NNN.Name, in `images/` if it exists, else in the folder."""
    images = folder / "images"
    catalog = read_folder(images if images.is_dir() else folder).catalog
    wrong = [label for label in catalog.classes if not NUMBERED.match(label)]
    if wrong or not catalog.labels:
        raise InvalidFile(
            f"{catalog.root}: {f'{wrong[0]!r} is' if wrong else 'its images are in'} no class "
            "folder named by number, as 001.Name",
            fix="name the folder of the data set as it was published, or read it as folder:FOLDER",
        )
    return list_by_number(name, catalog, last_training)


def numbered_label(number: int, name: str = "") -> str:
    """Label with a padded number, so that labels sort by number.

    >>> numbered_label(7, "Parakeet_Auklet")
    '007.Parakeet_Auklet'
    """
    return f"{number:03d}.{name}" if name else f"{number:03d}"


def list_by_number(name: str, catalog: Catalog, last_training: int) -> Listing:
    """Split by class number: up to `last_training` to train on, the others to test on."""
    numbers = (int(label.split(".")[0]) for label in catalog.labels)
    splits = tuple("train" if number <= last_training else "test" for number in numbers)
    return Listing(name, catalog, splits)
