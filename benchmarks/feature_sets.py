"""Embeddings of photos and glyphs whose classes the encoder was not trained with, in several views."""

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from retrieval import Untrained
from torch import Tensor

import surefind as sf
from surefind.datasets import read_catalog
from surefind.images.catalog import Catalog
from surefind.images.decode import decode
from surefind.images.preprocess import Preprocessing
from surefind.reports.evaluate import bars_auroc

PHOTOS = {  # of ImageNet, none of which is trained any further
    "MobileNetV2": ("mobilenetv2_100", "mobilenetv2_100.safetensors"),
    "ResNet-50": ("resnet50_v1", "resnet50_v1_fp16.safetensors"),
}
WITH_CARS = "MobileNetV2"
RANDOM_SPLITS = 5
CROP = 0.8  # of each side
FILES_AT_ONCE = 256
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


def crop(pixels: Tensor, across: float) -> Tensor:
    """From the left (0) to the right end (1), in the middle of the height."""
    height, width = (max(1, round(CROP * side)) for side in pixels.shape[1:])
    top, left = (pixels.shape[1] - height) // 2, round(across * (pixels.shape[2] - width))
    return pixels[:, top : top + height, left : left + width]


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "photo": lambda pixels: pixels,
    "mirror": lambda pixels: pixels.flip(2),
    "left": lambda pixels: crop(pixels, 0),
    "middle": lambda pixels: crop(pixels, 0.5),
    "right": lambda pixels: crop(pixels, 1),
}


def encode_view(encoder: sf.Encoder, files: Sequence[Path], view: str, keep: Path) -> sf.Embeddings:
    kept = keep / f"{encoder.fingerprint[:16]}-{len(files)}-{view}.safetensors"
    if kept.exists():
        return sf.Embeddings.load(kept)
    parts = [encoder.empty()]
    for start in range(0, len(files), FILES_AT_ONCE):
        some = files[start : start + FILES_AT_ONCE]
        parts.append(encoder.encode([VIEWS[view](decode(file)) for file in some]))
    embeddings = type(parts[0]).cat(parts)
    embeddings.save(kept)
    return embeddings
