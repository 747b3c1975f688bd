"""Corruption rises with the level, repeats with the seed, and does not mind the size."""

from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from surefind.errors import InvalidArgument
from surefind.images.corruptions import HIDDEN, KINDS, LEVELS, corrupt

RISING = range(1, LEVELS + 1)


def photo(side: int = 96, *, seed: int = 0) -> Image.Image:
    """Large shapes and small ones."""
    random = np.random.default_rng(seed)
    scene = np.zeros((96, 96, 3))
    for cells in (3, 6, 12, 24):
        layer = Image.fromarray(random.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        scene += np.asarray(layer.resize((96, 96), Image.Resampling.BICUBIC)) / 4
    picture = Image.fromarray(scene.clip(0, 255).astype(np.uint8))
    return picture.resize((side, side), Image.Resampling.BICUBIC)


def distance(one: Image.Image, other: Image.Image) -> float:
    """Root of the mean squared difference, where white is 1."""
    difference = np.asarray(one, dtype=float) - np.asarray(other, dtype=float)
    return float(np.sqrt((difference**2).mean()) / 255)


def covered(level: int, *, seed: int, size: tuple[int, int] = (60, 40)) -> np.ndarray:
    """Where the block is: a chequered image has no pixel of its mean colour."""
    rows, columns = np.indices(size[::-1])
    chequered = np.repeat(np.uint8((rows + columns) % 2 * 255)[:, :, None], 3, axis=2)
    worse = corrupt(Image.fromarray(chequered), "occlusion", level, seed=seed)
    return np.asarray(worse)[:, :, 0] == 128


@pytest.mark.parametrize("kind", KINDS)
def test_every_level_is_farther_from_the_clean_image(kind: str):
    images = [photo(seed=seed) for seed in range(12)]
    distances = [
        np.mean([distance(corrupt(i, kind, level, seed=n), i) for n, i in enumerate(images)])
        for level in range(LEVELS + 1)
    ]
    assert np.all(np.diff(distances) > 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_decides_the_pixels(kind: str):
    first, again, other = (corrupt(photo(), kind, 3, seed=(1, n)) for n in (7, 7, 8))
    assert distance(first, again) == 0
    assert kind == "blur" or distance(first, other) > 0


@pytest.mark.parametrize("seed", range(20))
def test_a_block_contains_the_block_of_the_level_below(seed: int):
    blocks = [covered(level, seed=seed) for level in RISING]
    for smaller, larger in pairwise(blocks):
        assert not (smaller & ~larger).any()
        assert larger.sum() > smaller.sum()


@pytest.mark.parametrize("level", RISING)
def test_a_block_hides_the_share_it_should(level: int):
    assert covered(level, seed=0, size=(600, 400)).mean() == pytest.approx(HIDDEN[level], abs=0.005)


@pytest.mark.parametrize("seed", range(5))
def test_a_crop_shows_part_of_what_the_level_below_showed(seed: int):
    """Where a pixel of the crop comes from is painted into it: red is across, green is down."""
    across = np.tile(np.arange(256, dtype=np.uint8), (256, 1))
    ramp = Image.fromarray(np.dstack([across, across.T, 0 * across]))
    shown = [np.asarray(corrupt(ramp, "crop", level, seed=seed)) for level in RISING]
    for wider, closer in pairwise(shown):
        for channel in (0, 1):
            assert closer[:, :, channel].min() >= wider[:, :, channel].min()
            assert closer[:, :, channel].max() <= wider[:, :, channel].max()


def test_noise_in_a_large_photo_survives_being_made_small():
    grey = Image.new("RGB", (1000, 800), (128, 128, 128))
    small = corrupt(grey, "noise", 3, seed=0).resize((280, 224), Image.Resampling.BOX)
    assert np.asarray(small, dtype=float).std() > 0.5 * 255 * 0.2


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (2, 3), (3000, 7)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [1, LEVELS])
def test_any_size_stays_as_it_is(size: tuple[int, int], kind: str, level: int):
    worse = corrupt(Image.new("RGB", size, (9, 99, 199)), kind, level, seed=0)
    assert worse.size == size and worse.mode == "RGB"


@pytest.mark.parametrize("level", [-1, LEVELS + 1, 1.5])
def test_a_level_that_does_not_exist_is_refused(level: int):
    with pytest.raises(InvalidArgument, match="level: expected one of 0, 1, 2, 3, 4, 5"):
        corrupt(photo(), "blur", level, seed=0)
