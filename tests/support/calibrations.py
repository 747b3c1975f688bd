"""Calibrations that were not fitted, whose guarantee is as a test wants it; pictures to fit one."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from surefind.confidence.calibrate import CalibrationTargets
from surefind.confidence.calibration import Calibration, Curve, Origin, Quality
from surefind.confidence.conformal import PredictionSetRule, novelty_of
from surefind.confidence.guarantee import PrecisionGuarantee
from surefind.encoders import Encoder
from surefind.search.index import Index

CLASSES = 24  # of noisy pictures

GUARANTEE = PrecisionGuarantee(
    precision=0.95,
    probability=0.9,
    threshold=0.83,
    coverage=0.41,
    selected=333,
    right=326,
    queries=812,
    groups=40,
    design_effect=1.2,
    horizon=None,
    queries_needed=None,
    best=0.97,
)
PREDICTION_SET = PredictionSetRule(
    miss_rate=0.1, level=0.97, most=20, mean_size=4.56, queries=812, groups=40, smallest_achievable_miss_rate=0.03
)
ORIGIN = Origin(
    fingerprint="f" * 64,
    ranking="mean",
    created="2026-11-16T09:44:45+00:00",
    source="labelled/",
    queries=812,
    classes=40,
    without_match=0,
    gallery=1000,
)
QUALITY = Quality(
    right=0.76,
    nearest_right=0.74,
    auroc=0.866,
    aurc=0.07,
    ece=0.029,
    brier=0.118,
    baseline_auroc=0.601,
    baseline_ece=0.069,
    baseline_brier=0.18,
    floor=0.012,
    baseline_floor=0.013,
    ratio_auroc=0.741,
)


def make_calibration(*, genuine: int = 700, **changed: Any) -> Calibration:
    """With the parts above, or others; it cannot judge."""
    parts: dict[str, Any] = {
        "origin": ORIGIN,
        "model": None,
        "novelty": novelty_of(np.linspace(0, 1, genuine)),
        "guarantee": GUARANTEE,
        "prediction_set": PREDICTION_SET,
        "quality": QUALITY,
        "curve": make_curve(),
        "reference_quantiles": {},
    }
    return Calibration(**parts | changed)


def make_curve(queries: int = 400, *, seed: int = 0) -> Curve:
    """Honest confidence; the baseline is half of it, half chance."""
    random = np.random.default_rng(seed)
    sure = random.beta(2, 1, queries)
    right = random.random(queries) < sure
    half = 0.5 * sure + 0.5 * random.random(queries)
    correct = tuple(right.tolist())
    return Curve(tuple(sure.tolist()), correct, tuple(half.tolist()), correct)


def write_noisy_pictures(folder: Path, *, per_class: int, seed: int, noises: tuple[float, ...] = (15, 150)) -> Path:
    """Class folders of 20 x 20 PNGs: the same patterns each time, in some hardly to be seen."""
    random = np.random.default_rng(seed)
    for number in range(CLASSES):
        place = folder / f"class{number:02d}"
        place.mkdir(parents=True)
        pattern = np.random.default_rng(1000 + number).integers(0, 255, (5, 5, 3))
        for picture in range(per_class):
            noise = random.choice(noises) * random.uniform(0.5, 1.5)
            pixels = pattern.repeat(4, axis=0).repeat(4, axis=1) + random.normal(0, noise, (20, 20, 3))
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(place / f"{picture}.png")
    return folder


def write_foreign_picture(path: Path) -> Path:
    """Unlike all of them: from dark to light."""
    Image.fromarray(np.linspace(0, 255, 1200).reshape(20, 20, 3).astype(np.uint8)).save(path)
    return path


def make_calibrated_index(folder: Path, model: Path) -> Path:
    """The folder, with `index`, its `photos` and the `queries` that it was calibrated with.

    It is calibrated by labels; `calibrate_without_labels` undoes that.
    """
    photos = write_noisy_pictures(folder / "photos", per_class=6, seed=0)
    write_noisy_pictures(folder / "queries", per_class=12, seed=1)
    with Index.create(folder / "index", Encoder.load(model), photos) as index:
        index.calibrate(folder / "queries", targets=CalibrationTargets(precision=0.8), learn_variance=False)
    return folder


def calibrate_without_labels(folder: Path, queries: Path) -> Path:
    """Calibrate an index by neighbourhoods; return it."""
    with Index.open(folder) as index:
        targets = CalibrationTargets(precision=0.8)
        index.calibrate(queries, targets=targets, use_labels=False, learn_variance=False)
    return folder
