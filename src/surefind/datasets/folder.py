"""A folder with one folder per class, or with train, val and test folders of such folders."""

import os
from collections.abc import Iterator
from pathlib import Path

from surefind.datasets.dividing import divide
from surefind.datasets.splits import PARTS, HoldOut, Listing, Splits
from surefind.errors import InvalidFile, SurefindError
from surefind.images.catalog import Catalog

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp")


def folder_catalog(folder: Path) -> Catalog:
    """All images; labelled where each lies in a class folder."""
    return read_folder(folder).catalog


def folder_has_splits(folder: Path) -> bool:
    return read_folder(folder).has_splits


def folder_splits(folder: Path, *, hold_out: HoldOut) -> Splits:
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
    return divide(folder.resolve().name, listing, hold_out=hold_out)


def read_folder(folder: Path) -> Listing:
    """A class is the first folder of a path, whatever lies deeper."""
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
        raise InvalidFile(f"{folder}: no such folder", fix="check the path")
    try:
        paths = sorted(_walk(str(folder), "", str(folder.resolve())))
    except OSError as error:
        raise InvalidFile(
            f"{folder}: cannot be listed: {error}", fix="make its folders readable"
        ) from error
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
            elif entry.name.lower().endswith(SUFFIXES) and _is_inside(entry, root):
                yield path


def _is_inside(entry: os.DirEntry[str], root: str) -> bool:
    if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(root):
        return False
    return entry.is_file()
