"""A calibration as documents: whole, damage is found, and only for its own index."""

import pytest
from clusters import cluster_engine, clusters
from safetensors.torch import save
from stores import change_documents

import surefind as sf
from surefind.confidence.calibrate import CalibrationTargets, calibrate_engine, own_queries
from surefind.confidence.calibration import Calibrated, calibration_documents, read_calibration
from surefind.confidence.variance_heads import fit_variance_heads
from surefind.storage import Documents

FACTS, DENSITY, HEADS = (f"calibration.{its}" for its in ("json", "density", "heads"))


def calibrated(place, seed: int) -> Calibrated:
    embeddings, labels = clusters(seed=seed)
    engine = cluster_engine(place, embeddings, labels)
    made = calibrate_engine(engine, own_queries(engine), CalibrationTargets(), source=f"seed {seed}")
    heads = fit_variance_heads(embeddings.mean, labels, heads=4, steps=2, seed=seed).heads
    return Calibrated(made.calibration, made.density, heads)


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> Calibrated:
    return calibrated(tmp_path_factory.mktemp("first") / "store", seed=1)


@pytest.fixture(scope="module")
def second(tmp_path_factory) -> Calibrated:
    return calibrated(tmp_path_factory.mktemp("second") / "store", seed=2)


@pytest.fixture
def documents(tmp_path, first) -> Documents:
    made = Documents(tmp_path / "some.db")
    made.write(calibration_documents(first))
    return made


def read(documents: Documents, **changed) -> Calibrated:
    return read_calibration(documents, **{"fingerprint": "f" * 64, "ranking": "mean"} | changed)


def assert_same(one: Calibrated, other: Calibrated) -> None:
    assert one.calibration == other.calibration
    assert one.density.to_bytes() == other.density.to_bytes()
    assert (one.heads is None) == (other.heads is None)
    if one.heads is not None and other.heads is not None:
        tensors = other.heads.tensors()
        for name, tensor in one.heads.tensors().items():
            assert tensor.equal(tensors[name])


def test_what_is_written_is_read(documents, first):
    assert_same(read(documents), first)


def test_a_new_calibration_replaces_the_old_one(documents, second):
    documents.write(calibration_documents(second))
    assert_same(read(documents), second)


def test_heads_are_left_out_where_there_are_none(documents, first):
    without = Calibrated(first.calibration, first.density)
    documents.write(calibration_documents(without))
    assert_same(read(documents), without)
    assert documents.read("").keys() == {FACTS, DENSITY}


@pytest.mark.parametrize("name", [FACTS, DENSITY, HEADS])
@pytest.mark.parametrize("change", ["DELETE FROM documents", "UPDATE documents SET content = content || x'20'"])
def test_one_that_is_damaged_or_missing_is_noticed_and_calibrated_again(documents, first, name, change):
    change_documents(documents.path, change, name)
    with pytest.raises(sf.InvalidFile, match=f"(?s)some.db.*{name}.*calibrate again"):
        read(documents)
    documents.write(calibration_documents(first))
    assert_same(read(documents), first)


def test_the_calibration_of_another_model_is_refused(documents):
    with pytest.raises(sf.InvalidFile, match="another index: model ffffffffffff.* has 000000000000"):
        read(documents, fingerprint="0" * 64)


def test_the_calibration_of_another_ranking_is_refused(documents):
    with pytest.raises(sf.InvalidFile, match="by mean distance.*by expected"):
        read(documents, ranking="expected")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (b'"schema": 3', b'"schema": 99', "schema 99, this version reads"),
        (b'"names": ["', b'"names": ["horoscope', "does not know: horoscope"),
    ],
)
def test_a_calibration_of_another_version_is_refused(documents, before, after, message):
    facts = documents.read(FACTS)[FACTS]
    documents.write({FACTS: facts.replace(before, after)})
    with pytest.raises(sf.InvalidFile, match=f"(?s){message}.*calibrate again"):
        read(documents)


def test_heads_of_another_shape_are_one_clear_error(documents, first):
    """Their checksum is right: another version may have written them."""
    tensors = first.heads.tensors()
    documents.write({HEADS: save(tensors | {"prior_in": tensors["prior_in"][..., :-1].clone()})})
    with pytest.raises(sf.InvalidFile, match=r"(?s)cannot be read.*prior_in.*calibrate again"):
        read(documents)
