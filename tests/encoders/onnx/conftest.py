"""Small models with their exports, made once."""

from pathlib import Path

import pytest
from class_folders import write_pictures

from surefind.encoders import Encoder, EncoderConfig
from surefind.encoders.onnx.export import export_onnx
from surefind.images.preprocess import Preprocessing

FAMILIES = ("gaussian", "von-mises-fisher", "point")


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = write_pictures(tmp_path_factory.mktemp("onnx") / "photos", classes=4, per_class=6)
    return sorted(folder.rglob("*.png"))


@pytest.fixture(scope="session", params=FAMILIES)
def exported_family(request, pictures, tmp_path_factory) -> Path:
    """A model of each family, in both precisions; not to be changed."""
    if request.param == "gaussian":
        return request.getfixturevalue("exported")
    folder = tmp_path_factory.mktemp(request.param) / "model"
    config = EncoderConfig("tiny", dim=16, family=request.param, preprocessing=Preprocessing(size=16))
    encoder = Encoder.create(config, seed=1)
    encoder.trained_with = frozenset({"0123456789abcdef"})
    encoder.save(folder)
    export_onnx(folder, int8=pictures, source="pictures")
    return folder
