"""The glyphs that are searched, those kept out to ask with, and the calibrated index."""

from typing import NamedTuple

import numpy as np

from surefind.demo.stages import Tell
from surefind.encoders.encoder import Encoder
from surefind.errors import InvalidFile
from surefind.images.catalog import Catalog
from surefind.search.confidence.calibration import Calibration
from surefind.search.confidence.fitting import Wishes
from surefind.search.folder import IndexFolder
from surefind.search.index import Index

WISHES = Wishes(precision=0.75, foreign_rate=0.05)  # what so short a training can promise
KEPT_OUT = 3  # of each class: with one, too few are called a match to see how many rightly


class Divided(NamedTuple):
    """Images of classes that no encoder was trained with."""

    gallery: Catalog
    kept_out: Catalog  # a few of each class, to ask with


def divide(test: Catalog, *, seed: int) -> Divided:
    """Of each class, KEPT_OUT images drawn at random stay outside."""
    draw = np.random.default_rng(seed)
    codes = range(len(test.classes))
    drawn = (draw.choice(np.flatnonzero(test.codes == c), KEPT_OUT, replace=False) for c in codes)
    outside = {int(row) for its in drawn for row in its}
    inside = [row for row in range(len(test)) if row not in outside]
    return Divided(test.select(inside), test.select(sorted(outside)))


def indexed(folder: IndexFolder, encoder: Encoder, gallery: Catalog, *, tell: Tell) -> Index:
    """The index of an earlier run is completed, else a new one is made."""
    if folder.exists():
        index = Index.open(folder.path, encoder=encoder)
    else:
        index = Index.create(folder.path, encoder)
    if len(index) < len(gallery):
        index.add(
            gallery,
            duplicates="keep",
            progress=lambda done: tell("", done, len(gallery)),
        )
        index.compact()
    if index.known(gallery.ids) != set(gallery.ids) or len(index) != len(gallery):
        index.close()
        raise InvalidFile(
            f"{folder.path} holds other images than those of the demo",
            fix=f"delete {folder.path}, or name a new folder: surefind demo -o FOLDER",
        )
    return index


def known_calibration(index: Index) -> Calibration | None:
    """That of an earlier run, if it is what would be made now."""
    calibration = index.calibration
    if calibration is None or calibration.origin.gallery != len(index):
        return None
    found = calibration.promise.precision, calibration.foreign_rate
    return calibration if found == (WISHES.precision, WISHES.foreign_rate) else None


def calibrated(index: Index, *, seed: int, tell: Tell) -> Calibration:
    """By its own images, each asked of the others; whatever judges one never saw its class."""
    return index.calibrate(wishes=WISHES, seed=seed, progress=tell)
