"""Small pictures for the documents: classes that any encoder can tell apart."""

from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 20


def draw_class(number: int, *, seed: int, noise: float) -> Image.Image:
    """The pattern of a class with noise of the seed."""
    pattern = np.random.default_rng(1000 + number).integers(0, 255, (5, 5, 3))
    pixels = pattern.repeat(4, axis=0).repeat(4, axis=1).astype(float)
    pixels += np.random.default_rng(seed).normal(0, noise, (SIDE, SIDE, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def write_classes(folder: Path, names: list[str], *, per_class: int, seed: int) -> Path:
    """Class folders of pictures, in some of which the pattern is hardly to be seen."""
    random = np.random.default_rng(seed)
    for number, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for picture in range(per_class):
            noise = float(random.choice((15, 150)) * random.uniform(0.5, 1.5))
            drawn = draw_class(number, seed=int(random.integers(2**31)), noise=noise)
            drawn.save(folder / name / f"{picture}.png")
    return folder


def write_foreign(folder: Path, count: int) -> Path:
    """Unlike all of them: from dark to light, at some slope."""
    folder.mkdir(parents=True)
    across, down = np.meshgrid(np.linspace(0, 1, SIDE), np.linspace(0, 1, SIDE))
    for number in range(count):
        share = number / max(1, count - 1)
        grey = 255 * (share * across + (1 - share) * down)
        Image.fromarray(grey.astype(np.uint8)).convert("RGB").save(folder / f"{number:02d}.png")
    return folder
