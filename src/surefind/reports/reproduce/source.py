"""Where the data of a table is."""

import os
from pathlib import Path

from surefind.datasets.sources import READERS
from surefind.errors import InvalidFile

USUAL = {
    "cub200": ("cub200", "CUB_200_2011", "cub200-2010"),
    "cars196": ("cars196",),
    "msls": ("msls",),
}
PLACE = "SUREFIND_DATA"


def find_source(dataset: str, given: str | None) -> str:
    """As `open_dataset` takes it: what was given, else a folder of a usual name in $SUREFIND_DATA.

    A plain folder is read as the data set's own layout.
    """
    if found := look_for(dataset, given):
        return found
    raise InvalidFile(
        f"where is {dataset}?",
        fix=f"name its folder, --data FOLDER, or set {PLACE} to a folder with "
        f"{' or '.join(USUAL[dataset])} in it",
    )


def look_for(dataset: str, given: str | None) -> str | None:
    """Like `find_source`; None where nothing was given and nothing is there."""
    if given is not None:
        return _named(dataset, given)
    if dataset == "glyphs":
        return dataset
    place = os.environ.get(PLACE)
    folders = [Path(place) / name for name in USUAL[dataset]] if place else []
    return next((f"{dataset}:{folder}" for folder in folders if folder.is_dir()), None)


def _named(dataset: str, given: str) -> str:
    if given.partition(":")[0] in READERS or Path(given).is_file():
        return given
    if not Path(given).is_dir():
        raise InvalidFile(f"{given}: no such folder", fix=f"name the folder of {dataset}")
    return f"{dataset}:{given}"
