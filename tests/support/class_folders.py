"""Small pictures in class folders, easy to tell apart but for some noise."""

from pathlib import Path

import numpy as np
from PIL import Image


def write_pictures(folder: Path, *, classes: int = 12, per_class: int = 5, seed: int = 0) -> Path:
    """Class folders of 20 x 20 PNGs: a pattern for each class, with noise."""
    random = np.random.default_rng(seed)
    for number in range(classes):
        place = folder / f"class{number:02d}"
        place.mkdir(parents=True)
        pattern = random.integers(0, 255, (5, 5, 3)).repeat(4, axis=0).repeat(4, axis=1)
        for picture in range(per_class):
            noisy = pattern + random.normal(0, 30, pattern.shape)
            Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(place / f"{picture}.png")
    return folder
