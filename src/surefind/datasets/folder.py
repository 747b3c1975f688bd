"""A folder with one folder per class, or with train, val and test folders of such folders."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from surefind.datasets.splits import PARTS, HoldOut, Listing, Splits, check_classes, divide
from surefind.errors import InvalidFile, SurefindError
from surefind.images.catalog import Catalog

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp")
NUMBERED = re.compile(r"\d{1,4}(\.|$)")


def split_folder(folder: Path, hold_out: HoldOut) -> Splits:
    """By train, val, test and foreign folders if there are, else the classes in halves."""
    listing = read_folder(folder)
    catalog = listing.catalog
    if not catalog.labels:
        depth = min(path.count("/") for path in catalog.paths)
        loose = [path for path in catalog.paths if path.count("/") == depth]
        raise SurefindError(
            f"{folder}: {len(loose)} of {len(catalog)} images lie in no class folder, "
            f"such as {loose[0]!r}",
            fix="put the images of each class into a folder of their own",
        )
    if len(catalog.classes) == 1 and all(path.count("/") > 1 for path in catalog.paths):
        inner = folder / catalog.classes[0]
        raise SurefindError(
            f"{folder}: one class, {inner.name!r}; training needs at least two classes",
            fix=f"if the class folders are inside {inner.name}, open {inner}",
        )
    return divide(folder.resolve().name, listing, hold_out)


def read_folder(folder: Path) -> Listing:
    """All images; a class is the first folder of a path, whatever lies deeper."""
    paths = find_images(folder)
    steps = [path.split("/") for path in paths]
    tops = {step[0] for step in steps}
    if "train" in tops and len(tops) > 1 and tops <= set(PARTS):
        parts = tuple(step[0] for step in steps)
        inner = [step[1:] for step in steps]
    else:
        parts, inner = (), steps
    labels: list[str] = []
    for row, step in enumerate(inner):
        if len(step) > 1:
            labels.append(step[0])
        elif parts and parts[row] == "foreign":
            labels.append(paths[row])  # a class of its own: it matches nothing
    if len(labels) < len(paths):
        return Listing(Catalog(folder, tuple(paths)))
    return Listing(Catalog(folder, tuple(paths), labels=tuple(labels)), parts)


def find_images(folder: Path) -> list[str]:
    """Sorted paths of the images below a folder, without hidden files and links that leave it."""
    if not folder.is_dir():
        raise InvalidFile(f"{folder}: no such folder")
    try:
        paths = sorted(_walk(str(folder), "", str(folder.resolve())))
    except OSError as error:
        raise InvalidFile(f"{folder}: cannot be listed: {error}") from error
    if not paths:
        raise InvalidFile(
            f"{folder}: no images",
            fix=f"put images there ({' '.join(SUFFIXES)}); links to folders, and links that lead "
            "out of the folder, are not followed",
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


def read_numbered(folder: Path) -> Catalog:
    """Class folders named NNN.Name, in `images/` where there is one, else in the folder itself."""
    images = folder / "images"
    catalog = read_folder(images if images.is_dir() else folder).catalog
    wrong = [label for label in catalog.classes if not NUMBERED.match(label)]
    if wrong or not catalog.labels:
        raise InvalidFile(
            f"{catalog.root}: {f'{wrong[0]!r} is' if wrong else 'its images are in'} no class "
            "folder named by number, as 001.Name",
            fix="name the folder of the data set as it was published, or read it as folder:FOLDER",
        )
    return catalog


def numbered_label(number: int, name: str = "") -> str:
    """Padded, so that labels sort as their numbers do.

    >>> numbered_label(7, "Parakeet_Auklet")
    '007.Parakeet_Auklet'
    """
    return f"{number:03d}.{name}" if name else f"{number:03d}"


def list_by_number(catalog: Catalog, last_training: int) -> Listing:
    """Classes up to a number to train on, the later ones to test on."""
    numbers = (int(label.split(".")[0]) for label in catalog.labels)
    return Listing(catalog, tuple("train" if n <= last_training else "test" for n in numbers))


def split_by_number(name: str, listing: Listing, hold_out: HoldOut) -> Splits:
    """As `divide`, but test classes may be all there is."""
    catalog, parts = listing
    if "test" not in parts:
        first, last = (int(catalog.classes[place].split(".")[0]) for place in (0, -1))
        raise SurefindError(
            f"{name}: {catalog.root} holds training classes only ({first} to {last})",
            fix="add the other half of the data set; to search or to check these images alone "
            "no splits are needed (read_catalog)",
        )
    if "train" in parts:
        return divide(name, listing, hold_out)
    check_classes(f"{name}, test", catalog)
    nothing = catalog.select([])
    return Splits(name, train=nothing, val=nothing, test=catalog)
