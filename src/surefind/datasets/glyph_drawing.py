"""One glyph: a character, moved at random, and spoiled as much as its difficulty says."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from surefind.datasets.glyph_faces import draw_character

SIZE_PX = 32
INK_PX = 22.0  # the longer side of a character before jitter
# Nuisance, the same for every difficulty.
TILT_DEG = 15.0
SCALE_JITTER = 0.15
SHIFT_PX = 2.5
# What difficulty 1 does; less in proportion.
BLUR_PX = 1.8
NOISE = 0.3
BLOCK_PX = 16.0


def draw_glyph(
    char: str, face: str, *, difficulty: float, random: np.random.Generator
) -> Image.Image:
    """Dark on light, 32 x 32 grey pixels."""
    page = _place(draw_character(char, face), random)
    ink = np.asarray(page.filter(ImageFilter.GaussianBlur(BLUR_PX * difficulty))) / 255.0
    ink = _cover(ink, BLOCK_PX * difficulty, random)
    ink += random.normal(scale=NOISE, size=ink.shape) * difficulty
    return Image.fromarray(np.uint8(np.round(255 * (1 - ink.clip(0, 1)))))


def _place(ink: Image.Image, random: np.random.Generator) -> Image.Image:
    """The character on its page, turned, sized and shifted in one step at double resolution."""
    scale = 2 * INK_PX / max(ink.size) * random.uniform(1 - SCALE_JITTER, 1 + SCALE_JITTER)
    turn = np.deg2rad(random.uniform(-TILT_DEG, TILT_DEG))
    back = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]) / scale
    target = SIZE_PX + 2 * random.uniform(-SHIFT_PX, SHIFT_PX, size=2)
    start = np.array(ink.size) / 2 - back @ target
    coefficients = tuple(np.column_stack([back, start]).ravel().tolist())
    page = ink.transform(
        (2 * SIZE_PX, 2 * SIZE_PX),
        Image.Transform.AFFINE,
        coefficients,
        resample=Image.Resampling.BICUBIC,
    )
    return page.reduce(2)


def _cover(
    ink: NDArray[np.float64], side: float, random: np.random.Generator
) -> NDArray[np.float64]:
    """A grey square over some of the character; drawn whatever its size, so that the random
    numbers after it stay the same.
    """
    centre = SIZE_PX / 2 + random.uniform(-INK_PX / 3, INK_PX / 3, size=2)
    shade = random.uniform(0.2, 0.8)
    low, high = np.round(centre - side / 2).astype(int), np.round(centre + side / 2).astype(int)
    covered = ink.copy()
    covered[max(0, low[0]) : high[0], max(0, low[1]) : high[1]] = shade
    return covered
