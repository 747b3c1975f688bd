"""Training classes of a model: saved and loaded with it, and used for a warning."""

import json
from pathlib import Path

import numpy as np
import pytest
from calibrations import write_noisy_pictures

import surefind as sf
from surefind.encoders import Encoder
from surefind.encoders.serialization import CLASSES as FILE
from surefind.encoders.serialization import class_hashes
from surefind.images.preprocess import Preprocessing

SMALL = Preprocessing(size=16)


def names(count: int) -> list[str]:
    """Of the classes of noisy pictures."""
    return [f"class{number:02d}" for number in range(count)]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    return write_noisy_pictures(tmp_path_factory.mktemp("classes") / "photos", per_class=6, seed=0)


def test_codes_do_not_depend_on_order_repetition_or_how_numbers_are_kept():
    assert class_hashes([3, 1, 2, 2, 1]) == class_hashes(["1", "2", "3"])
    assert class_hashes(np.array([1, 2, 3])) == class_hashes((2, 3, 1))
    assert len(class_hashes(names(20))) == 20
    assert class_hashes([]) == frozenset()


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'["a", null]', b'"a"', b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_file_is_one_error_that_says_what_it_is_for(tiny, tmp_path, content):
    tiny().save(tmp_path)
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(sf.InvalidFile, match="(?s)classes.json is not a list.*delete it"):
        Encoder.load(tmp_path)


def test_a_saved_model_remembers_its_classes_but_not_their_names(tiny, tmp_path):
    encoder = tiny()
    encoder.trained_with = class_hashes(["Jane Doe", "cat", "ü", ""])
    encoder.save(tmp_path)
    assert Encoder.load(tmp_path).trained_with == class_hashes(["", "ü", "cat", "Jane Doe"])
    for path in tmp_path.iterdir():
        assert b"Jane" not in path.read_bytes()
    assert json.loads((tmp_path / FILE).read_text()) == sorted(encoder.trained_with)


def test_a_model_saved_over_another_does_not_inherit_its_classes(tiny, tmp_path):
    encoder = tiny()
    encoder.trained_with = class_hashes(["cat"])
    encoder.save(tmp_path)
    tiny(seed=1).save(tmp_path)
    assert Encoder.load(tmp_path).trained_with == frozenset()


def test_classes_are_not_part_of_the_fingerprint(tiny):
    encoder = tiny()
    before = encoder.fingerprint
    encoder.trained_with = class_hashes(["cat"])
    assert encoder.fingerprint == before


@pytest.mark.parametrize(("known", "count"), [([*names(7), "another"], 7), (["another", "class"], 0)])
def test_calibrating_with_training_classes_is_remarked(tiny, pictures, tmp_path, known, count):
    encoder = tiny(preprocessing=SMALL)
    encoder.trained_with = class_hashes(known)
    queries = write_noisy_pictures(tmp_path / "queries", per_class=4, seed=1)
    files = sorted(queries.rglob("*.png"))
    labels = [path.parent.name for path in files]
    with sf.Index.create(tmp_path / "index", encoder, pictures) as index:
        of_pictures = index.calibrate(queries, learn_variance=False)
        of_vectors = index.calibrate(encoder.encode(files), labels=labels, learn_variance=False)
    for made in (of_pictures, of_vectors):
        found = [remark for remark in made.origin.remarks if "used to train the model" in remark]
        assert [int(remark.split(" of the ")[0]) for remark in found] == [count] * bool(count)
