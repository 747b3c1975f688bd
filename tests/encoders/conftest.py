"""Small encoders that need no timm, and pictures for them."""

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from surefind.encoders import Encoder, EncoderConfig


@pytest.fixture
def tiny() -> Callable[..., Encoder]:
    """tiny(family="point") and so on: an encoder for pictures of 32 px."""

    def make(*, seed: int = 0, **options) -> Encoder:
        options = {"backbone": "tiny", "dim": 16} | options
        return Encoder.create(EncoderConfig(**options), seed=seed)

    return make


@pytest.fixture(scope="session")
def pictures() -> list[Image.Image]:
    random = np.random.default_rng(0)
    return [Image.fromarray(random.integers(0, 256, (24, 40, 3), np.uint8)) for _ in range(9)]
