"""Small encoders that need no timm, and pictures for them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from class_folders import write_pictures
from PIL import Image

from surefind.encoders import Encoder, EncoderConfig
from surefind.encoders.onnx import export_onnx
from surefind.images.preprocess import Preprocessing


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


@pytest.fixture(scope="session", params=["gaussian", "von-mises-fisher", "point"])
def exported_family(request, tmp_path_factory) -> Path:
    """A model of each family, in both precisions; not to be changed."""
    if request.param == "gaussian":
        return request.getfixturevalue("exported")
    folder = tmp_path_factory.mktemp(request.param) / "model"
    config = EncoderConfig("tiny", dim=16, family=request.param, preprocessing=Preprocessing(size=16))
    photos = write_pictures(tmp_path_factory.mktemp("onnx") / "photos", classes=4, per_class=6)
    encoder = Encoder.create(config, seed=1)
    encoder.trained_with = frozenset({"0123456789abcdef"})
    encoder.save(folder)
    export_onnx(folder, int8=sorted(photos.rglob("*.png")), source="pictures")
    return folder
