"""A made-up gallery of photos with a calibrated index, and photos to ask it for."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

import surefind as sf
from surefind.encoders import Encoder, EncoderConfig

CLASSES, PER_CLASS, QUERIES_PER_CLASS = 40, 8, 6
SIZES = ((500, 375), (375, 500), (400, 300), (224, 224))
ASKED = 64  # different photos


class Asked(NamedTuple):
    """An index, and photos that clients send."""

    folder: Path  # of an index
    photos: list[bytes]


def made_up_gallery(folder: Path) -> Asked:
    """Photos of 40 classes, a MobileNetV2 with random weights, calibrated as any other index.

    Weights that were drawn tell the classes apart well enough, since each has colours of its own.
    What is measured does not depend on how well.
    """
    photos, queries = folder / "photos", folder / "queries"
    write_photos(photos, per_class=PER_CLASS, seed=0)
    write_photos(queries, per_class=QUERIES_PER_CLASS, seed=1)
    torch.manual_seed(0)
    encoder = Encoder.create(EncoderConfig(backbone="mobilenetv2_100")).eval()
    with sf.Index.create(folder / "index", encoder, photos) as index:
        index.calibrate(queries, targets=sf.CalibrationTargets(precision=0.8), learn_variance=False)
    return Asked(folder / "index", photos_in(queries))


def photos_in(folder: Path) -> list[bytes]:
    """Some of them, from all over the folder."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    return [path.read_bytes() for path in files[:: max(1, len(files) // ASKED)][:ASKED]]


def write_photos(folder: Path, *, per_class: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    for number in range(CLASSES):
        place = folder / f"class{number:02d}"
        place.mkdir(parents=True)
        for name, pixels in enumerate(_pictures(number, per_class, random)):
            Image.fromarray(pixels).save(place / f"{name}.jpg", quality=90)


def _pictures(number: int, count: int, random: np.random.Generator) -> Iterator[NDArray[np.uint8]]:
    """Soft patches in the colours of the class with grain, so that a JPEG is as long as usual."""
    colours = np.random.default_rng(1000 + number).integers(0, 255, (6, 6, 3))
    for _ in range(count):
        width, height = SIZES[random.integers(len(SIZES))]
        patches = (colours + random.normal(0, 40, colours.shape)).clip(0, 255).astype(np.uint8)
        large = Image.fromarray(patches).resize((width, height), Image.Resampling.BICUBIC)
        grain = random.normal(0, 6, (height, width, 1))
        yield (np.asarray(large) + grain).clip(0, 255).astype(np.uint8)
