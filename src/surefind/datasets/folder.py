"""Class folders, or train, val and test folders of class folders."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from surefind.datasets.splits import SPLITS, Listing
from surefind.errors import InvalidFile
from surefind.images.catalog import Catalog

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp", ".heic", ".heif")
NUMBERED = re.compile(r"\d{1,4}(\.|$)")


def read_folder(folder: Path) -> Listing:
    """List all images; the class is the first folder of a path."""
    name, paths = folder.resolve().name, find_images(folder)
    steps = [path.split("/") for path in paths]
    tops = {step[0] for step in steps}
    given = "train" in tops and len(tops) > 1 and tops <= set(SPLITS)
    splits = tuple(step[0] for step in steps) if given else ()
    labels, loose = [], []
    for row, path in enumerate(paths):
        if len(steps[row]) > 1 + given:
            labels.append(steps[row][given])
        elif given and splits[row] == "foreign":
            labels.append(path)  # a class of its own: it matches nothing
        else:
            loose.append(path)
    if loose:
        problem = f"{len(loose)} of {len(paths)} images lie in no class folder, such as {loose[0]!r}"
        return Listing(name, Catalog(folder, tuple(paths)), problem=problem)
    problem = ""
    if len(set(labels)) == 1 and all(len(step) > 2 for step in steps):
        problem = f"one class, {labels[0]!r}; are the class folders in {folder / labels[0]}?"
    return Listing(name, Catalog(folder, tuple(paths), labels=tuple(labels)), splits, problem)


def find_images(folder: Path) -> list[str]:
    """Sorted paths of the images below a folder; hidden files and outside links are skipped."""
    if not folder.is_dir():
        raise InvalidFile(f"{folder}: no such folder")
    try:
        paths = sorted(_walk(str(folder), "", str(folder.resolve())))
    except OSError as error:
        raise InvalidFile(f"{folder}: cannot be listed: {error}") from error
    if not paths:
        raise InvalidFile(
            f"{folder}: no images",
            fix=f"known: {' '.join(SUFFIXES)}; links to folders, and out of it, are not followed",
        )
    return paths


def _walk(folder: str, below: str, root: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, f"{path}/", root)
            elif (
                entry.name.lower().endswith(SUFFIXES)
                and (not entry.is_symlink() or Path(entry.path).resolve().is_relative_to(root))
                and entry.is_file()
            ):
                yield path


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
