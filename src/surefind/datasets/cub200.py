"""Caltech-UCSD Birds: as published in 2011, or as class folders; classes 1-100 train, rest test.

images.txt              <image> <path below images/>
image_class_labels.txt  <image> <class>
classes.txt             <class> <name>, where present
"""

from pathlib import Path

from surefind.datasets.folder import list_by_number, numbered_label, read_numbered
from surefind.datasets.splits import Listing
from surefind.errors import InvalidFile
from surefind.images.catalog import Catalog

LAST_TRAINING = 100


def is_cub200(folder: Path) -> bool:
    return (folder / "images.txt").is_file() and (folder / "image_class_labels.txt").is_file()


def read_cub200(folder: Path) -> Listing:
    if not is_cub200(folder):
        return read_numbered("cub200", folder, LAST_TRAINING)
    paths = _read_pairs(folder / "images.txt")
    classes = _read_pairs(folder / "image_class_labels.txt")
    if odd := set(paths) ^ set(classes):
        raise InvalidFile(f"{folder}: image {min(odd)} is in only one of images.txt and image_class_labels.txt")
    if wrong := [number for number in classes.values() if not number.isdecimal()]:
        raise InvalidFile(f"{folder / 'image_class_labels.txt'}: class {wrong[0]!r} is no number")
    names = _read_pairs(folder / "classes.txt") if (folder / "classes.txt").is_file() else {}
    # Published names carry their number already: 001.Black_footed_Albatross.
    label = {n: numbered_label(int(n), names.get(n, "").partition(".")[2]) for n in classes.values()}
    catalog = Catalog(
        folder,
        paths=tuple(f"images/{path}" for path in paths.values()),
        labels=tuple(label[classes[image]] for image in paths),
    )
    return list_by_number("cub200", catalog, LAST_TRAINING)


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
            raise InvalidFile(f"{file}, line {number}: expected a new number and a value, got {line!r}")
        if key:
            pairs[key] = value.strip()
    return pairs
