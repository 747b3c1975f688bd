"""What stands in the folder that a document's commands are run in."""

import os
import shutil
from functools import cached_property
from pathlib import Path

import numpy as np
from documents_blocks import ROOT
from documents_data import write_birds, write_cars, write_streets
from documents_pictures import draw_class, write_classes, write_foreign
from vague_vectors import vague_vectors

from surefind.encoders import Encoder
from surefind.search.confidence.fitting import Wishes
from surefind.search.index import Index

CLASSES = ["cat", "dog", *(f"thing{number:02d}" for number in range(22))]
METRES_APART = 500.0  # of the places of places.csv


class World:
    """Inputs, written once; a calibrated index and a report, made when first asked for."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.made, self.model = folder / "made", model
        self.inputs = write_inputs(folder / "inputs")

    @cached_property
    def index(self) -> Path:
        folder = self.made / "index"
        with Index.create(folder, Encoder.load(self.model), self.inputs / "photos") as index:
            index.calibrate(
                self.inputs / "labelled", wishes=Wishes(precision=0.8), learn_doubt=False
            )
        return folder

    @cached_property
    def report(self) -> Path:
        from surefind.reports.evaluate import Request
        from surefind.reports.folder import evaluate_into

        request = Request(model=self.model, data=str(self.inputs / "photos"), ladder=4)
        evaluate_into(request, output=self.made / "report", kept_in=self.made / "kept")
        return self.made / "report"

    def copy(self, folder: Path, *names: str) -> Path:
        """The inputs, and what else is to stand ready, to be changed at will."""
        shutil.copytree(self.inputs, folder, copy_function=_copy, dirs_exist_ok=True)
        for name in names:
            shutil.copytree(getattr(self, name), folder / name)
        return folder


def _copy(source: str, target: str) -> None:
    """Pictures, of which there are many, are linked."""
    (os.link if source.endswith((".png", ".jpg")) else shutil.copy2)(source, target)


def write_inputs(folder: Path) -> Path:
    """All that common documents name: photos, vectors, places, data sets."""
    write_classes(folder / "photos", CLASSES, per_class=6, seed=0)
    write_classes(folder / "labelled", CLASSES, per_class=12, seed=1)
    write_foreign(folder / "other-photos", 24)
    for name in ("query.jpg", "photo.jpg"):
        draw_class(0, seed=7, noise=15).save(folder / name, quality=95)
    (folder / "queries").mkdir()
    for number in range(4):
        picture = draw_class(number, seed=number, noise=20 + 40 * number)
        picture.save(folder / "queries" / f"{number}.jpg", quality=95)
    _write_vectors(folder)
    _write_places(folder / "places.csv")
    write_birds(folder / "data" / "CUB_200_2011")
    write_cars(folder / "data" / "cars196")
    write_streets(folder / "data" / "msls")
    return folder


def _write_vectors(folder: Path) -> None:
    """Labelled ones of some classes; of others, a gallery and some to ask it."""
    vectors, labels, _ = vague_vectors(classes=60, per_class=12)
    known = labels < 30
    np.savez(folder / "vectors.npz", vectors=vectors[known], labels=labels[known])
    asked = ~known & (np.arange(len(labels)) % 60 == 0)
    gallery = ~known & ~asked
    np.savez(folder / "gallery.npz", vectors=vectors[gallery], labels=labels[gallery])
    np.savez(folder / "asked.npz", vectors=vectors[asked])


def _write_places(file: Path) -> None:
    degrees = METRES_APART / 111_000
    rows = [
        f"photos/{name}/{picture}.png,{55 + place * degrees:.6f},{12 + picture * 3e-5:.6f}"
        for place, name in enumerate(CLASSES)
        for picture in range(6)
    ]
    file.write_text("\n".join(["path,lat,lon", *rows]) + "\n")


def clone(folder: Path) -> None:
    """As of this repository: links to all that is not hidden."""
    folder.mkdir(parents=True, exist_ok=True)
    for place in ROOT.iterdir():
        if not place.name.startswith("."):
            (folder / place.name).symlink_to(place)
