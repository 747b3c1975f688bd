"""What tests of reports share."""

from pathlib import Path

import pytest
from class_folders import write_pictures
from evaluations import make_evaluation

from surefind.encoders import Encoder, EncoderConfig
from surefind.images.preprocess import Preprocessing
from surefind.reports.result import EvalResult, QueryTable


@pytest.fixture
def evaluation(tmp_path: Path) -> tuple[EvalResult, QueryTable]:
    """A small evaluation with pictures, two rankings and foreign queries."""
    return make_evaluation(tmp_path)


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Path:
    """A model, pictures of eight classes (four to train on), and foreign pictures."""
    folder = tmp_path_factory.mktemp("evaluate")
    write_pictures(folder / "own", classes=8)
    write_pictures(folder / "foreign", classes=3, seed=9)
    (folder / "own" / "class07" / "broken.png").write_bytes(b"no picture")
    for family, dropout in (("gaussian", 0.0), ("point", 0.3)):
        config = EncoderConfig(
            "tiny",
            dim=16,
            family=family,
            head_dropout=dropout,
            preprocessing=Preprocessing(size=16),
        )
        Encoder.create(config, seed=0).save(folder / family)
    return folder
