"""Corruptions of images (blur, occlusion, crop, noise) in five levels, for any image size."""

from collections.abc import Sequence
from math import sqrt

import numpy as np
from PIL import Image, ImageFilter, ImageStat

from surefind.validation import check_choice

KINDS = ("blur", "occlusion", "crop", "noise")
LEVELS = 5
# By level; level 0 does nothing.
BLUR = (0.0, 0.015, 0.025, 0.035, 0.048, 0.065)  # standard deviation, of the shorter side
HIDDEN = (0.0, 0.05, 0.10, 0.17, 0.26, 0.38)  # share of the area under the block
KEPT = (1.0, 0.80, 0.62, 0.47, 0.34, 0.24)  # share of the area inside the crop
NOISE = (0.0, 0.06, 0.12, 0.20, 0.32, 0.50)  # standard deviation, where white is 1
GRAINS = 224  # of noise along the shorter side, at most

Seed = int | Sequence[int]


def corrupt(image: Image.Image, kind: str, level: int, *, seed: Seed) -> Image.Image:
    """Return a corrupted RGB image of the same size; level 0 is the image itself, 5 the worst.

    A seed fixes position and noise pattern at all levels, so that corruption grows with the
    level: blocks grow around the same point, crops lie inside each other.

    >>> corrupt(Image.new("RGB", (40, 30)), "crop", 3, seed=0).size
    (40, 30)
    """
    check_choice("kind", kind, KINDS)
    check_choice("level", str(level), tuple(str(known) for known in range(LEVELS + 1)))
    if level == 0:
        return image
    random = np.random.default_rng(seed)
    if kind == "blur":
        return image.filter(ImageFilter.GaussianBlur(BLUR[level] * min(image.size)))
    if kind == "occlusion":
        return _occlude(image, level, random)
    if kind == "crop":
        window = _window(image.size, KEPT[level], random)
        return image.resize(image.size, Image.Resampling.BICUBIC, box=window)
    return _add_noise(image, level, random)


def _occlude(image: Image.Image, level: int, random: np.random.Generator) -> Image.Image:
    """Cover a block with the mean colour: black would add a strong edge and darken the image."""
    red, green, blue = (round(value) for value in ImageStat.Stat(image).mean)
    left, top, right, bottom = (round(end) for end in _window(image.size, HIDDEN[level], random))
    hidden = image.copy()
    hidden.paste((red, green, blue), (left, top, right, bottom))
    return hidden


def _add_noise(image: Image.Image, level: int, random: np.random.Generator) -> Image.Image:
    """Add clipped Gaussian noise per channel.

    Grains grow with the image: pixel noise in a large photo would be averaged away by resizing.
    """
    width, height = image.size
    grain = max(1.0, min(image.size) / GRAINS)
    rows, columns = (np.arange(height) / grain).astype(int), (np.arange(width) / grain).astype(int)
    pattern = random.standard_normal((rows[-1] + 1, columns[-1] + 1, 3), dtype=np.float32)
    noise = np.rint(255 * NOISE[level] * pattern).astype(np.int16)[rows][:, columns]
    noise += np.asarray(image)
    return Image.fromarray(noise.clip(0, 255).astype(np.uint8))


def _window(size: tuple[int, int], share: float, random: np.random.Generator) -> tuple[float, float, float, float]:
    """Random window with this share of the area: left, top, right, bottom.

    It lies near the centre, where the subject usually is. With one seed, windows are nested.
    """
    x, y = random.uniform(0.25, 0.75, size=2).tolist()
    width, height = (side * sqrt(share) for side in size)
    left, top = x * (size[0] - width), y * (size[1] - height)
    return left, top, left + width, top + height
