"""Random views: reproducible by seed, and each distortion does what it says."""

import pytest
import torch

from surefind.training.data import augment
from surefind.training.recipe import AugmentPart

STILL = {"rotation": 0, "scale": 1, "jitter": 0, "hue": 0, "flip": False}


@pytest.fixture
def pixels() -> torch.Tensor:
    """Smooth colour gradients, different in every channel and corner."""
    ramp = torch.linspace(0, 200, 32)
    one = torch.stack([ramp.expand(32, 32), ramp[:, None].expand(32, 32), ramp.flip(0).expand(32, 32)])
    return one.round().to(torch.uint8).repeat(8, 1, 1, 1)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_same_seed_gives_the_same_views(pixels):
    part = AugmentPart()
    assert augment(part, pixels, 24, generator()).shape == (8, 3, 24, 24)
    assert torch.equal(augment(part, pixels, 24, generator(3)), augment(part, pixels, 24, generator(3)))
    assert not torch.equal(augment(part, pixels, 24, generator(3)), augment(part, pixels, 24, generator(4)))


def test_about_half_of_the_images_are_flipped(pixels):
    many = pixels[:1].repeat(400, 1, 1, 1)
    views = augment(AugmentPart(**STILL | {"flip": True}), many, 32, generator())
    falling = views[:, 0, 16, 4] > views[:, 0, 16, -4]
    assert 0.4 < falling.float().mean() < 0.6


def test_a_crop_keeps_the_share_of_the_area_it_is_told(pixels):
    """The red channel is a ramp of 200 over the width, the green one over the height."""
    many = pixels[:1].repeat(300, 1, 1, 1)
    views = augment(AugmentPart(**STILL | {"scale": 0.4}), many, 32, generator())
    views = views.float()
    width = (views[:, 0, 16, -1] - views[:, 0, 16, 0]) / 200
    height = (views[:, 1, -1, 16] - views[:, 1, 0, 16]) / 200
    area = width * height
    assert 0.33 < area.min() < 0.5
    assert area.max() > 0.85


def test_rotations_stay_within_their_limit():
    """A vertical edge tilts by at most the angle."""
    edge = torch.zeros(200, 3, 64, 64, dtype=torch.uint8)
    edge[:, :, :, 32:] = 255
    views = augment(AugmentPart(**STILL | {"rotation": 10}), edge, 64, generator()).float()
    top, bottom = views[:, 0, 16].sum(1) / 255, views[:, 0, 48].sum(1) / 255
    degrees = torch.rad2deg(torch.atan((top - bottom) / 32)).abs()
    assert 7 < degrees.max() < 14  # a narrower crop tilts a little more


def test_grey_images_stay_grey():
    grey = torch.full((50, 3, 8, 8), 120, dtype=torch.uint8)
    grey[:, :, :4] = 60
    views = augment(AugmentPart(scale=1, jitter=0.4, hue=0.3), grey, 8, generator()).int()
    assert (views.amax(dim=1) - views.amin(dim=1)).max() <= 1


def test_brightness_and_contrast_vary_as_much_as_they_are_told():
    flat = torch.full((500, 3, 8, 8), 100, dtype=torch.uint8)
    views = augment(AugmentPart(scale=1, jitter=0.2, hue=0), flat, 8, generator()).float()
    level = views.mean((1, 2, 3))
    assert 78 <= level.min() < 85
    assert 115 < level.max() <= 122
