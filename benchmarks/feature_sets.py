"""Embeddings of photos and glyphs whose classes the encoder was not trained with."""

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from retrieval import Untrained
from views import encode_view

import surefind as sf
from surefind.datasets import read_catalog
from surefind.images.catalog import Catalog
from surefind.images.preprocess import Preprocessing
from surefind.reports.evaluate import bars_auroc

PHOTOS = {  # of ImageNet, none of which is trained any further
    "MobileNetV2": ("mobilenetv2_100", "mobilenetv2_100.safetensors"),
    "ResNet-50": ("resnet50_v1", "resnet50_v1_fp16.safetensors"),
}
WITH_CARS = "MobileNetV2"
RANDOM_SPLITS = 5
Rows = NDArray[np.int64]


class FeatureSet(NamedTuple):
    """Labelled embeddings, the number of classes that the official split fits to, foreign ones."""

    name: str
    embeddings: sf.Embeddings
    labels: NDArray[np.str_]  # in the order of the official split
    fitted: int  # classes
    foreign: sf.Embeddings
    bars: float  # AUROC of foreign by black bars alone

    @property
    def classes(self) -> list[str]:
        return list(dict.fromkeys(self.labels.tolist()))

    def rows_of(self, classes: Collection[str]) -> Rows:
        return np.flatnonzero(np.isin(self.labels, list(classes)))

    def splits(self) -> Iterator[tuple[str, Rows, Rows]]:
        """Rows to fit to and to judge: the official split, its reverse, random halves."""
        first, second = self.classes[: self.fitted], self.classes[self.fitted :]
        yield "official", self.rows_of(first), self.rows_of(second)
        yield "reverse", self.rows_of(second), self.rows_of(first)
        for seed in range(RANDOM_SPLITS):
            drawn = np.random.default_rng(seed).permutation(self.classes).tolist()
            half = len(drawn) // 2
            yield f"random {seed}", self.rows_of(drawn[:half]), self.rows_of(drawn[half:])


def photo_sets(data: Path, keep: Path, *, backbones: Collection[str]) -> Iterator[FeatureSet]:
    """CUB-200 (2010), officially 1-100 and 101-200, and the cars, each foreign to the other."""
    if not data.exists():
        sys.exit(f"{data} is missing: set SUREFIND_DATA to a folder with cub200-2010 and cars196")
    birds = sf.open_dataset(f"cub200:{data / 'cub200-2010'}", val_share=0)
    cars = read_catalog(f"cars196:{data / 'cars196'}")
    half = len(cars.classes) // 2
    halves = [cars.of_classes(some) for some in (cars.classes[:half], cars.classes[half:])]
    bars = bars_auroc(birds.test.files, cars.files)
    for name in backbones:
        backbone, weights = PHOTOS[name]
        pixels = Preprocessing(size=224, interpolation="bilinear")
        config = sf.EncoderConfig(backbone=backbone, family="point", preprocessing=pixels)
        encoder = Untrained.create(config, weights=data / "weights" / weights).eval()
        yield _set(f"birds, {name}", encoder, [birds.train, birds.test], cars, keep, bars)
        if name == WITH_CARS:
            yield _set(f"cars, {name}", encoder, halves, birds.test, keep, bars)


def glyph_set(model: Path, keep: Path) -> FeatureSet:
    """Validation and test letters; symbols are foreign."""
    glyphs = sf.open_dataset("glyphs")
    assert glyphs.foreign is not None
    bars = bars_auroc(glyphs.test.files, glyphs.foreign.files)
    encoder = sf.Encoder.load(model)
    return _set("glyphs", encoder, [glyphs.val, glyphs.test], glyphs.foreign, keep, bars)


def _set(name: str, encoder: sf.Encoder, parts: list[Catalog], foreign: Catalog, keep: Path, bars: float) -> FeatureSet:
    encoded = [encode_view(encoder, part.files, "photo", keep) for part in (*parts, foreign)]
    labels = np.array([label for part in parts for label in part.labels])
    own = type(encoded[0]).cat(encoded[:2])
    return FeatureSet(name, own, labels, len(parts[0].classes), encoded[2], bars)
