"""Resizing keeps to its reference, and settings survive a trip through JSON."""

import numpy as np
import pytest
import torch
from measure import grown_by
from PIL import Image
from torch import Tensor

from surefind.errors import InvalidArgument
from surefind.images.preprocess import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from surefind.validation import make

PILLOW = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


def photo(height: int, width: int) -> Tensor:
    noise = np.random.default_rng(0).integers(0, 255, (height // 5, width // 5, 3), np.uint8)
    image = Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def pillow(pixels: Tensor) -> Image.Image:
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())


def largest_difference(pixels: Tensor, image: Image.Image) -> int:
    return int((pixels.int() - torch.from_numpy(np.array(image)).permute(2, 0, 1).int()).abs().max())


@pytest.mark.parametrize("interpolation", PILLOW)
@pytest.mark.parametrize(("height", "width"), [(375, 500), (500, 375), (60, 40), (64, 64)])
def test_squashing_agrees_with_pillow(interpolation: str, height: int, width: int):
    pixels = photo(height, width)
    found = Preprocessing(size=64, interpolation=interpolation).resize_image(pixels)
    expected = pillow(pixels).resize((64, 64), PILLOW[interpolation])
    assert largest_difference(found, expected) <= 1


@pytest.mark.parametrize(("height", "width"), [(375, 500), (500, 375), (300, 300)])
def test_cropping_agrees_with_pillow(height: int, width: int):
    pixels = photo(height, width)
    found = Preprocessing(size=56, resize="crop", crop_share=0.875).resize_image(pixels)
    share = 64 / min(height, width)
    scaled = pillow(pixels).resize((round(width * share), round(height * share)), Image.Resampling.BICUBIC)
    left, top = (scaled.width - 56) // 2, (scaled.height - 56) // 2
    assert largest_difference(found, scaled.crop((left, top, left + 56, top + 56))) <= 1


def test_padding_keeps_the_aspect_and_the_rest_is_zero_after_normalising():
    ready = Preprocessing(size=60, resize="pad")
    padded = ready.resize_image(photo(100, 200))
    inner = pillow(photo(100, 200)).resize((60, 30), Image.Resampling.BICUBIC)
    assert largest_difference(padded[:, 15:45], inner) <= 1
    outside = ready.normalise(padded[None])[0][:, [*range(15), *range(45, 60)]]
    assert outside.abs().max() < 0.01


@pytest.mark.parametrize("resize", ["squash", "crop", "pad"])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 65_535), (65_535, 1), (3, 999)])
def test_thin_images_need_no_more_memory_than_others(resize: str, height: int, width: int):
    pixels = torch.full((3, height, width), 7, dtype=torch.uint8)
    ready = Preprocessing(size=32, resize=resize)
    found: list[Tensor] = []
    assert grown_by(lambda: found.append(ready.resize_image(pixels))) < 20
    assert found[0].shape == (3, 32, 32)
    assert (found[0] == 7).all(dim=0).any()


def test_an_image_of_the_right_size_is_left_alone():
    pixels = photo(40, 40)
    for resize in ("squash", "crop", "pad"):
        assert torch.equal(Preprocessing(size=40, resize=resize).resize_image(pixels), pixels)


def test_normalising_takes_out_mean_and_deviation():
    batch = torch.stack([photo(20, 20), photo(20, 20).flip(1)])
    mean, std = (torch.tensor(v)[:, None, None] for v in (IMAGENET_MEAN, IMAGENET_STD))
    expected = (batch.double() / 255 - mean) / std
    found = Preprocessing().normalise(batch)
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"resize": "squish"}, "resize: .* did you mean 'squash'"),
        ({"interpolation": "cubic"}, "interpolation: .* did you mean 'bicubic'"),
        ({"size": 0}, "size: expected a whole number from 1 to 4096, got 0"),
        ({"size": 224.0}, "size: expected a whole number"),
        ({"crop_share": 1.2}, "crop_share: expected a share"),
        ({"std": (0.2, 0.0, 0.2)}, "std: expected three numbers above 0"),
        ({"mean": (0.2, 0.1)}, "mean: expected three finite numbers"),
        ({"sise": 224}, "preprocessing: .* did you mean 'size'"),
    ],
)
def test_a_wrong_setting_is_named_with_its_remedy(wrong: dict[str, object], message: str):
    with pytest.raises(InvalidArgument, match=f"(?s){message}"):
        make(Preprocessing, wrong, argument="preprocessing")
