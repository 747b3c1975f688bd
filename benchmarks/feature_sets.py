"""Embeddings of photos and glyphs in two sets of classes: one to calibrate on, one to test."""

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from retrieval import Untrained
from views import encode_view

import surefind as sf
from surefind.datasets import read_catalog
from surefind.images.catalog import Catalog
from surefind.images.preprocess import Preprocessing
from surefind.reports.bars import bars_auroc

PHOTOS = {  # of ImageNet, none of which is trained any further
    "MobileNetV2": ("mobilenetv2_100", "mobilenetv2_100.safetensors"),
    "ResNet-50": ("resnet50_v1", "resnet50_v1_fp16.safetensors"),
}


WITH_CARS = "MobileNetV2"


class Labelled(NamedTuple):
    embeddings: sf.Embeddings
    labels: tuple[str, ...]


class FeatureSet(NamedTuple):
    """What one encoder makes of images of which it never saw the classes."""

    name: str
    fit: Labelled
    test: Labelled
    foreign: sf.Embeddings
    bars: float  # AUROC of foreign by black bars alone


def photo_sets(data: Path, keep: Path, *, backbones: Collection[str]) -> Iterator[FeatureSet]:
    """CUB-200 (2010), classes 1-100 to calibrate on, 101-200 to test; cars are foreign.

    And the cars, one half of their classes to calibrate on: no setting was chosen by them.
    """
    if not data.exists():
        sys.exit(f"{data} is missing: set SUREFIND_DATA to a folder with cub200-2010 and cars196")
    birds = sf.open_dataset(f"cub200:{data / 'cub200-2010'}", val_share=0)
    cars = read_catalog(f"cars196:{data / 'cars196'}")
    bars = bars_auroc(birds.test.files, cars.files)
    for name in backbones:
        backbone, weights = PHOTOS[name]
        pixels = Preprocessing(size=224, interpolation="bilinear")
        config = sf.EncoderConfig(backbone=backbone, family="point", preprocessing=pixels)
        encoder = Untrained.create(config, weights=data / "weights" / weights).eval()
        yield _set(name, encoder, (birds.train, birds.test, cars), keep, bars)
        if name == WITH_CARS:
            half = len(cars.classes) // 2
            fit, test = (
                cars.of_classes(some) for some in (cars.classes[:half], cars.classes[half:])
            )
            yield _set(f"{name}, cars", encoder, (fit, test, birds.test), keep, bars)


def glyph_set(model: Path, keep: Path) -> FeatureSet:
    """Validation classes to calibrate on, test classes to test; symbols are foreign."""
    glyphs = sf.open_dataset("glyphs")
    encoder = sf.Encoder.load(model)
    assert glyphs.foreign is not None
    parts = (glyphs.val, glyphs.test, glyphs.foreign)
    return _set("glyphs", encoder, parts, keep, bars_auroc(parts[1].files, parts[2].files))


def _set(
    name: str,
    encoder: sf.Encoder,
    parts: tuple[Catalog, Catalog, Catalog],
    keep: Path,
    bars: float,
) -> FeatureSet:
    fit, test, foreign = (encode_view(encoder, part.files, "photo", keep) for part in parts)
    return FeatureSet(
        name, Labelled(fit, parts[0].labels), Labelled(test, parts[1].labels), foreign, bars
    )
