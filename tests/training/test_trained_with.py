"""A trained model knows its classes, and an index of it warns when it is calibrated with them."""

import pytest
from calibrations import write_noisy_pictures

import surefind as sf
from surefind.datasets import open_dataset
from surefind.encoders.encoder import Encoder
from surefind.encoders.serialization import class_hashes
from surefind.training.trainer import train


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """Classes some of whose pictures are mistaken for another."""
    return write_noisy_pictures(tmp_path_factory.mktemp("noisy"), per_class=6, seed=0)


def test_a_trained_model_knows_its_classes_and_its_index_warns(noisy, recipe, tmp_path):
    splits = open_dataset(noisy)
    train(
        splits,
        recipe(variance={"held_out": 0.3, "steps": 1}, schedule={"steps": 2}),
        tmp_path / "model",
    )
    encoder = Encoder.load(tmp_path / "model")
    seen = set(splits.train.labels)
    assert encoder.trained_with == class_hashes(seen)
    assert not encoder.trained_with & class_hashes(splits.test.labels)
    sf.Index.create(tmp_path / "index", encoder, noisy).close()
    with sf.Index.open(tmp_path / "index") as index:
        remarks = index.calibrate(learn_variance=False).origin.remarks
    warning = f"{len(seen)} of the 24 classes were used to train the model"
    assert any(remark.startswith(warning) for remark in remarks)
