"""surefind upgrade, index and search with vectors of another model, as a user calls them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from noisy_vectors import noisy_vectors

import surefind as sf
from surefind.confidence import calibrate as calibrating

KNOWN = noisy_vectors(seed=0)
IN_GALLERY, ASKED = slice(0, None, 2), slice(1, None, 2)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """An upgrade, an index of it, and files of vectors; not to be changed."""
    folder = tmp_path_factory.mktemp("vectors")
    targets = sf.CalibrationTargets(precision=0.8)
    upgrade = sf.calibrate(KNOWN.vectors, KNOWN.labels, targets=targets, learn_variance=False)
    upgrade.save(folder / "model")
    names = [f"item {row}" for row in range(180)]
    gallery = KNOWN.vectors[IN_GALLERY], KNOWN.labels[IN_GALLERY]
    np.savez(folder / "labelled.npz", vectors=KNOWN.vectors, labels=KNOWN.labels)
    np.savez(folder / "gallery.npz", vectors=gallery[0], labels=gallery[1], ids=names)
    upgrade.index(folder / "index", gallery[0], labels=gallery[1], ids=names).close()
    queries = KNOWN.vectors[ASKED]
    with sf.Index.open(folder / "index") as index:
        results = index.search(upgrade.embed(queries))
    rows = [row for row, result in enumerate(results) if result.verdict == "match"]
    np.savez(folder / "match.npz", vectors=queries[rows[:5]])
    np.savez(folder / "foreign.npz", vectors=queries[:3] + 1000)
    np.savez(folder / "narrow.npz", vectors=queries[:, :7])
    np.savez(folder / "unlabelled.npz", vectors=KNOWN.vectors)
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path, surefind) -> Path:
    """The folder in which commands run."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(calibrating, "STEPS", 5)


def test_from_a_file_of_vectors_to_verdicts(surefind, place: Path):
    upgraded = surefind("upgrade", "labelled.npz", "-o", "new/model", "--precision", "0.8")
    assert upgraded.code == 0, upgraded.err
    assert upgraded.out.splitlines()[0].startswith("new/model, 360 images: calibrated 20")
    assert "360 queries of 30 classes (360 labelled vectors)" in upgraded.out
    assert "Guarantee (90 % probability): at least 80 % of results" in upgraded.out
    assert "learning the variance of vectors" in upgraded.err
    command = ("index", "gallery.npz", "--model", "new/model", "-o", "new/index", "--precision", "0.8")
    indexed = surefind(*command)
    assert (indexed.code, indexed.out.splitlines()[1]) == (0, "new/index: 180 images")
    assert "180 queries of 30 classes (the index itself), by labels of the index" in indexed.out
    found = surefind("search", "new/index", "foreign.npz")
    assert found.code == 4
    assert found.out.count("no match") >= 3
    assert "foreign.npz: row 0" in found.out
    assert "at least 80 % of results" in found.out


def test_arrays_can_be_named_and_without_a_variance_vectors_stay_points(surefind, place: Path):
    np.savez("odd.npz", a=KNOWN.vectors, b=KNOWN.vectors, c=KNOWN.labels)
    options = ("-o", "new", "--no-variance", "--precision", "0.8", "--json")
    done = surefind("upgrade", "odd.npz", "--vectors", "b", "--labels", "c", *options)
    facts = json.loads(done.out)
    assert (done.code, facts["origin"]["classes"]) == (0, 30)
    assert "log_var" not in facts["columns"] and "learning" not in done.err
    assert sf.Upgrade.load("new").heads is None
    done = surefind("upgrade", "labelled.npz", "-o", "other", "--no-variance", "--precision", "0.999")
    assert done.code == 3  # and the upgrade is kept
    assert "A precision of 99.9 % cannot be guaranteed from 360 queries of 30 classes" in done.out
    assert sf.Upgrade.load("other").calibration.guarantee.threshold is None
    assert surefind("upgrade", "odd.npz", *options).code == 1


@pytest.mark.parametrize("command", [("upgrade", "-o", "new"), ("calibrate", "index")])
def test_vectors_without_labels_are_one_error(surefind, place: Path, command):
    done = surefind(*command, "unlabelled.npz")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: unlabelled.npz has no labels")
    assert not Path("new").exists()


def test_running_index_twice_adds_nothing_and_new_vectors_are_added_and_found(surefind, place: Path):
    before = sf.Index.open("index").calibration
    facts = json.loads(surefind("index", "gallery.npz", "--model", "model", "-o", "index", "--json").out)
    assert (facts["added"], facts["known"], facts["images"]) == (0, 180, 180)
    assert sf.Index.open("index").calibration == before
    words = ("index", "match.npz", "--model", "model", "-o", "index", "--prefix", "new/", "--json")
    facts = json.loads(surefind(*words, "--remove", "item 3").out)
    assert (facts["added"], facts["known"], facts["removed"], facts["images"]) == (5, 0, 1, 184)
    found = json.loads(surefind("search", "index", "match.npz", "-k", "1", "--json").out)
    assert [result["hits"][0]["id"] for result in found] == [f"new/row {row}" for row in range(5)]


def test_an_index_that_was_not_finished_is_finished_by_the_next_run(surefind, place: Path):
    upgrade = sf.Upgrade.load("model")
    upgrade.make_index("killed").close()
    shutil.rmtree("killed/upgrade")
    done = surefind("index", "gallery.npz", "--model", "model", "-o", "killed", "--no-calibrate")
    assert done.code == 0
    assert surefind("search", "killed", "match.npz").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["narrow.npz", "-o", "new"], "expected vectors of one model, (N, 16), got shape (180, 7)"),
        (["gallery.npz", "-o", "new", "--ranking", "expected"], "--ranking: expected mean"),
        (["gallery.npz", "-o", "photos"], "photos is neither an index nor empty"),
    ],
)
def test_a_refused_index_is_one_error_and_creates_nothing(surefind, place: Path, arguments: list[str], message: str):
    Path("photos").mkdir()
    Path("photos/cat.jpg").write_bytes(b"a picture")
    done = surefind("index", *arguments, "--model", "model")
    assert (done.code, done.out) == (1, "")
    assert message in done.err
    assert not Path("new").exists()
    assert [path.name for path in Path("photos").iterdir()] == ["cat.jpg"]


def test_unreadable_queries_are_reported_and_the_others_answered(surefind, place: Path):
    done = surefind("search", "index", "narrow.npz", "nowhere.npz", "match.npz", "--json")
    assert done.code == 1
    assert "narrow.npz: vectors: expected vectors of one model, (N, 16)" in done.err
    assert "nowhere.npz is not there" in done.err
    results = json.loads(done.out)
    assert [one["query"] for one in results] == [f"match.npz: row {row}" for row in range(5)]
    assert {one["verdict"] for one in results} == {"match"}


def test_an_index_of_vectors_is_calibrated_with_labelled_vectors(surefind, place: Path):
    np.savez("asked.npz", vectors=KNOWN.vectors[ASKED], labels=KNOWN.labels[ASKED])
    done = surefind("calibrate", "index", "asked.npz", "--no-variance", "--precision", "0.7", "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)["origin"]
    assert (facts["queries"], facts["gallery"]) == (180, 180)
    assert surefind("calibrate", "index", "asked.npz", "--check").code == 0
    assert surefind("calibrate", "index", "foreign.npz", "--check").code == 1  # only three
