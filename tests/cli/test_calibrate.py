"""surefind calibrate as a user calls it."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from calibrations import write_noisy_pictures
from stores import change_documents, forget_calibration

from surefind.confidence import calibrate as calibrating
from surefind.images.decode import decode
from surefind.search.folder import IndexFolder
from surefind.search.index import Index


@pytest.fixture(scope="module")
def made(calibrated: Path, tmp_path_factory) -> Path:
    """An index that is not calibrated, and later queries; not to be changed."""
    folder = tmp_path_factory.mktemp("noisy")
    write_noisy_pictures(folder / "later", per_class=4, seed=2)
    shutil.copytree(calibrated / "index", folder / "index")
    forget_calibration(folder / "index")
    return folder


@pytest.fixture
def place(made: Path, calibrated: Path, tmp_path: Path, surefind) -> Path:
    """The folder in which commands run: an index to be calibrated, and queries."""
    shutil.copytree(made / "index", tmp_path / "index")
    for folder in (made / "later", calibrated / "queries", calibrated / "photos"):
        (tmp_path / folder.name).symlink_to(folder)
    return tmp_path


@pytest.fixture
def calibrated_place(calibrated: Path, place: Path) -> Path:
    """The same folder, its index calibrated."""
    shutil.rmtree(place / "index")
    shutil.copytree(calibrated / "index", place / "index")
    return place


def fit(surefind: Callable, *options: str):
    return surefind("calibrate", "index", "queries", "--no-variance", "--precision", "0.8", *options)


SIGNALS = ["confidence", "nearest distance", "d₁/d₂₀"]
BY_LABELS = ["encoding", "searching labelled queries"]
BY_NEIGHBOURS = ["learning the variance of images", "measuring local density"]


@pytest.mark.parametrize(
    ("option", "evidence", "rows", "what", "stages"),
    [
        ("--labels", "labels of the index", [*SIGNALS, "label vote of 10"], "labels", BY_LABELS),
        ("--no-labels", "neighbourhoods", SIGNALS, "hits", [*BY_LABELS, *BY_NEIGHBOURS]),
    ],
)
def test_a_calibration_prints_its_origin_quality_and_guarantee(
    surefind, place: Path, monkeypatch, option, evidence, rows, what, stages
):
    monkeypatch.setattr(calibrating, "STEPS", 5)
    done = surefind("calibrate", "index", "queries", "--precision", "0.8", option)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("index, 144 images: calibrated 20")
    assert lines[0].endswith(f", 288 queries of 24 classes (queries), by {evidence}")
    assert " of the first hits are right, and " in lines[1]
    title = "signal AUROC ECE (floor) answered at 80 %"
    assert " ".join(lines[3].split()) == title
    assert [line.split("  ")[0].strip() for line in lines[5 : 5 + len(rows)]] == rows
    assert "Cross-validated over classes" in done.out
    assert re.search(r'In short: \d+ % of queries like these are answered \("match"\), and \d+ %', done.out)
    assert re.search(r'called "match" are correct. Threshold: confidence \d+ %', done.out)
    assert f"The top 20 {what} contain a match for only" in done.out
    assert "At most 1 % of genuine queries" in done.out
    assert {line.partition(":")[0] for line in done.err.splitlines()} == set(stages)


def test_options_reach_the_fit_and_json_is_the_stored_summary(surefind, place: Path):
    options = ("--probability", "0.8", "--ahead", "900", "--miss", "0.3", "--novelty-level", "0.05")
    facts = json.loads(fit(surefind, *options, "--json").out)
    with Index.open(place / "index") as index:
        assert index.calibration is not None
        assert facts == json.loads(json.dumps(index.calibration.summary()))
    assert (facts["guarantee"]["probability"], facts["guarantee"]["horizon"]) == (0.8, 900)
    assert facts["prediction_set"]["miss_rate"] == 0.3
    assert facts["novelty_level"] == 0.05
    assert facts["origin"]["evidence"] == "labels"


def test_a_precision_that_cannot_be_guaranteed_exits_with_3_and_confidence_is_kept(surefind, place: Path):
    done = surefind("calibrate", "index", "queries", "--no-variance", "--precision", "0.999")
    assert done.code == 3
    assert "A precision of 99.9 % cannot be guaranteed from 288 queries of 24 classes" in done.out
    assert 'called "match" from a confidence of 99.9 %, without a guarantee.' in done.out
    found = surefind("search", "index", "queries/class00", "--json")
    results = json.loads(found.out)
    assert {result["verdict"] for result in results} <= {"unsure", "no_match"}
    assert not any(result["guaranteed"] for result in results)
    assert all(0 < result["confidence"] < 1 for result in results)
    assert found.code in (3, 4)


def test_copies_are_left_out_and_counted(surefind, place: Path):
    with Index.open(place / "index") as index:
        files = sorted((place / "photos" / "class00").iterdir())
        names, facts = [f"again {file.name}" for file in files], [{"label": "class00"}] * 6
        index.add(files, ids=names, metadata=facts, duplicates="keep")
    done = surefind("calibrate", "index", "--no-variance", "--precision", "0.5")
    assert "144 queries of 24 classes (the index itself)" in done.out.splitlines()[0]
    sentence = "Left out: 6 images that are copies of a query, by content or by an equal vector."
    assert done.out.splitlines()[1] == sentence
    assert sentence in surefind("info", "index").out


def test_one_split_of_the_data_is_used(surefind, place: Path):
    assert "warning: only 12 classes" in fit(surefind, "--split", "test").err  # of 24, the last


def test_a_plot_is_drawn(surefind, place: Path):
    done = fit(surefind, "--plot", "figures/plot.png")
    assert done.out.splitlines()[-1] == "drawn in figures/plot.png"
    assert min(decode(place / "figures" / "plot.png").shape[-2:]) > 300


def test_drift_is_reported_with_what_changed(surefind, calibrated_place: Path):
    done = surefind("calibrate", "index", "photos", "--check")  # each finds itself
    assert done.code == 3
    assert "these 144 queries differ from those of the calibration" in done.out
    assert "nearest: values are smaller than when calibrated" in done.out
    facts = json.loads(surefind("calibrate", "index", "photos", "--check", "--json").out)
    assert facts["queries"] == 144
    assert "nearest" in {drift["name"] for drift in facts["drifts"]}


def test_a_check_needs_no_labels_and_skips_unreadable_images(surefind, calibrated_place: Path):
    flat = calibrated_place / "flat"
    flat.mkdir()
    for number, picture in enumerate(sorted((calibrated_place / "later").rglob("*.png"))):
        shutil.copy(picture, flat / f"{number}.png")
    (flat / "bad\x1b.png").write_bytes(b"no picture")
    done = surefind("calibrate", "index", "flat", "--check")
    assert (done.code, "no drift: these 96 queries" in done.out) == (0, True)
    assert "bad�.png: not an image" in done.err


BAD_OPTIONS = {
    "queries --precision nan": "precision: expected a share",
    "queries --novelty-level 1": "novelty_level: expected a share",
    "queries --plot plot.bmp": "cannot draw plot.bmp",
    "queries --plot plot.png --check": "--check, --plot: expected one of them",
    "queries --check": "index is not calibrated",
    "--check": "DATA: expected queries after INDEX",
    "--split test": "DATA: expected queries after INDEX",
}


@pytest.mark.parametrize("options", BAD_OPTIONS)
def test_bad_options_are_one_error_before_any_work(surefind, place: Path, options: str):
    done = surefind("calibrate", "index", *options.split())
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ") and BAD_OPTIONS[options] in done.err
    assert IndexFolder(place / "index").documents.read("calibration") == {}


def test_too_little_data_is_one_error_before_any_work_or_with_labels_leaves_the_prior(surefind, place: Path):
    for label in ("class00", "class01"):
        shutil.copytree(place / "queries" / label, place / "little" / label)
    done = surefind("calibrate", "index", "little", "--no-labels")
    assert (done.code, done.out) == (1, "")
    assert "expected at least 50 labelled queries, got 24 (of 24 queries of 2" in done.err
    assert "encoding" not in done.err
    done = surefind("calibrate", "index", "little")
    assert done.code == 3
    assert "calibrated prior calibration of surefind, not fitted to this index" in done.out
    assert "24 labelled images of 2 classes have another image of their class" in done.err


def test_queries_and_targets_are_kept_to_calibrate_again(surefind, calibrated_place: Path):
    facts = json.loads(surefind("calibrate", "index", "--again", "--json").out)
    assert (facts["origin"]["queries"], facts["guarantee"]["precision"]) == (288, 0.8)
    done = surefind("calibrate", "index", "queries", "--again")
    assert (done.code, "--again: expected no DATA" in done.err) == (1, True)


def test_a_damaged_calibration_is_one_error_until_it_is_made_again(surefind, calibrated_place: Path):
    file = calibrated_place / "index" / "store" / "index.db"
    change_documents(file, "UPDATE documents SET content = x''")
    for command in (("search", "index", "queries/class00/0.png"), ("info", "index")):
        done = surefind(*command)
        assert (done.code, done.out) == (1, "")
        assert file.name in done.err and "fix: calibrate again" in done.err
    done = surefind("verify", "index")
    assert done.code == 1
    assert file.name in done.out and "fix: calibrate again" in done.out
    assert fit(surefind).code == 0
    assert surefind("verify", "index").code == 0


def test_a_filter_is_calibrated_beside_plain_searches_as_the_message_says(surefind, place: Path):
    assert fit(surefind, "--no-labels").code == 0
    asked = ("search", "index", "later/class01/0.png", "--where", "label != class03")
    before = surefind(*asked)
    command = re.search(r"surefind (calibrate index --again --where '.*?')", before.out)[1]
    assert surefind(*shlex.split(command)).code in (0, 3)
    after = surefind(*asked)
    assert "for searches with where label != 'class03'" in after.out
    assert json.loads(surefind(*asked, "--json").out)[0]["verdict"]


def test_queries_of_another_kind_have_no_confidence_before_their_own_calibration(surefind, calibrated_place: Path):
    done = surefind("search", "index", "later/class01/0.png", "--kind", "text")
    assert done.code == 0 and "--kind text" in done.out
    assert surefind("calibrate", "index", "queries", "--kind", "text").code in (0, 3)
    done = surefind("search", "index", "later/class01/0.png", "--kind", "text", "--json")
    assert json.loads(done.out)[0]["variant"] == "kind text"
