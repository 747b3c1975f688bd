"""The inputs that README and tutorial name: photos, queries, vectors."""

from pathlib import Path

import numpy as np
from PIL import Image
from vague_vectors import vague_vectors

SIDE = 20
CLASSES = ["cat", "dog", *(f"thing{number:02d}" for number in range(22))]


def write_inputs(folder: Path) -> None:
    for name, per_class, seed in (("photos", 6, 0), ("labelled", 12, 1)):
        _write_classes(folder / name, per_class=per_class, seed=seed)
    (folder / "other-photos").mkdir()
    across, down = np.meshgrid(np.linspace(0, 1, SIDE), np.linspace(0, 1, SIDE))
    for number in range(24):  # from dark to light, at some slope
        grey = 255 * (number / 23 * across + (1 - number / 23) * down)
        picture = Image.fromarray(grey.astype(np.uint8)).convert("RGB")
        picture.save(folder / "other-photos" / f"{number:02d}.png")
    (folder / "queries").mkdir()
    for number in range(4):
        _draw(number, seed=number, noise=20 + 40 * number).save(folder / f"queries/{number}.jpg")
    _draw(0, seed=7, noise=15).save(folder / "query.jpg", quality=95)
    vectors, labels, _ = vague_vectors(classes=60, per_class=12)
    known = labels < 30
    asked = ~known & (np.arange(len(labels)) % 60 == 0)
    gallery = ~known & ~asked
    np.savez(folder / "vectors.npz", vectors=vectors[known], labels=labels[known])
    np.savez(folder / "gallery.npz", vectors=vectors[gallery], labels=labels[gallery])
    np.savez(folder / "asked.npz", vectors=vectors[asked])


def _write_classes(folder: Path, *, per_class: int, seed: int) -> None:
    """Class folders of pictures, in some of which the pattern is hardly to be seen."""
    random = np.random.default_rng(seed)
    for number, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for picture in range(per_class):
            noise = float(random.choice((15, 150)) * random.uniform(0.5, 1.5))
            drawn = _draw(number, seed=int(random.integers(2**31)), noise=noise)
            drawn.save(folder / name / f"{picture}.png")


def _draw(number: int, *, seed: int, noise: float) -> Image.Image:
    """The pattern of a class with noise of the seed."""
    pattern = np.random.default_rng(1000 + number).integers(0, 255, (5, 5, 3))
    pixels = pattern.repeat(4, axis=0).repeat(4, axis=1).astype(float)
    pixels += np.random.default_rng(seed).normal(0, noise, (SIDE, SIDE, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
