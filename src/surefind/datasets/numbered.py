"""Class folders named NNN.Name, and splits by that number."""

import re
from pathlib import Path

from surefind.datasets.classes import check_classes, split_by_rule
from surefind.datasets.folder import read_folder
from surefind.datasets.splits import HoldOut, Splits
from surefind.errors import InvalidFile, SurefindError
from surefind.images.catalog import Catalog

NUMBERED = re.compile(r"\d{1,4}(\.|$)")


def numbered_label(number: int, name: str = "") -> str:
    """Padded, so that labels sort as their numbers do.

    >>> numbered_label(7, "Parakeet_Auklet")
    '007.Parakeet_Auklet'
    """
    return f"{number:03d}.{name}" if name else f"{number:03d}"


def numbered_catalog(folder: Path) -> Catalog:
    """The class folders in `images/` where there is one, else in the folder itself."""
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


def split_by_number(
    name: str, catalog: Catalog, *, last_training: int, hold_out: HoldOut
) -> Splits:
    """Classes up to a number to train on, the later ones to test on; those may be all there is."""
    numbers = {label: int(label.split(".")[0]) for label in catalog.classes}
    first, last = min(numbers.values()), max(numbers.values())
    if last <= last_training:
        raise SurefindError(
            f"{name}: {catalog.root} holds training classes only ({first} to {last})",
            fix="add the other half of the data set; to search or to check these images alone "
            "no splits are needed (read_catalog)",
        )
    if first > last_training:
        check_classes(f"{name}, test half", catalog)
        nothing = catalog.select([])
        return Splits(name, train=nothing, val=nothing, test=catalog)
    is_training = lambda label: numbers[label] <= last_training
    return split_by_rule(name, catalog, is_training=is_training, hold_out=hold_out)
