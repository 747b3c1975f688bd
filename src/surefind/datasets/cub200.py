"""Caltech-UCSD Birds: as published in 2011, or as class folders; classes 1-100 train, rest test.

images.txt              <image> <path below images/>
image_class_labels.txt  <image> <class>
classes.txt             <class> <name>, where present
"""

from pathlib import Path

from surefind.datasets.numbered import numbered_catalog, numbered_label, split_by_number
from surefind.datasets.splits import HoldOut, Splits
from surefind.errors import InvalidFile
from surefind.images.catalog import Catalog

LAST_TRAINING = 100


def is_cub200(folder: Path) -> bool:
    return (folder / "images.txt").is_file() and (folder / "image_class_labels.txt").is_file()


def cub200_catalog(folder: Path) -> Catalog:
    if not is_cub200(folder):
        return numbered_catalog(folder)
    paths = _read_pairs(folder / "images.txt")
    classes = _read_pairs(folder / "image_class_labels.txt")
    if set(paths) != set(classes):
        odd = min(set(paths) ^ set(classes))
        raise InvalidFile(
            f"{folder}: image {odd} is in only one of images.txt and image_class_labels.txt",
            fix="unpack the data set again",
        )
    names = _read_pairs(folder / "classes.txt") if (folder / "classes.txt").is_file() else {}
    return Catalog(
        folder,
        paths=tuple(f"images/{path}" for path in paths.values()),
        labels=tuple(_label(folder, classes[image], names) for image in paths),
    )


def cub200_splits(folder: Path, *, hold_out: HoldOut) -> Splits:
    catalog = cub200_catalog(folder)
    return split_by_number("cub200", catalog, last_training=LAST_TRAINING, hold_out=hold_out)


def _label(folder: Path, number: str, names: dict[str, str]) -> str:
    if not number.isdecimal():
        raise InvalidFile(
            f"{folder / 'image_class_labels.txt'}: class {number!r} is no number",
            fix="unpack the data set again",
        )
    # Published names carry their number already: 001.Black_footed_Albatross.
    return numbered_label(int(number), names.get(number, "").partition(".")[2])


def _read_pairs(file: Path) -> dict[str, str]:
    """The first word of each line with the rest of it."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{file}: cannot be read: {error}", fix="unpack it again") from error
    pairs: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        key, _, value = line.strip().partition(" ")
        if not line.strip():
            continue
        if not value or key in pairs:
            raise InvalidFile(
                f"{file}, line {number}: expected a new number and a value, got {line!r}",
                fix="unpack the data set again",
            )
        pairs[key] = value.strip()
    return pairs
