"""surefind calibrate as a user calls it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from calibrations import make_calibrated_index, write_noisy_pictures

from surefind.encoders import Encoder
from surefind.images.decode import decode
from surefind.search import calibrating
from surefind.search.confidence.observed import LEAST_OF_EACH
from surefind.search.index import Index


@pytest.fixture(scope="module")
def made(model: Path, tmp_path_factory) -> Path:
    """An index, and queries beside it; not to be changed."""
    folder = make_calibrated_index(tmp_path_factory.mktemp("noisy"), model)
    write_noisy_pictures(folder / "later", per_class=4, seed=2)
    (folder / "index" / "calibration").rename(folder / "calibration")
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path, surefind) -> Path:
    """The folder in which commands run: an index to be calibrated, and queries."""
    shutil.copytree(made / "index", tmp_path / "index")
    for name in ("queries", "later", "photos"):
        (tmp_path / name).symlink_to(made / name)
    return tmp_path


@pytest.fixture
def calibrated(made: Path, place: Path) -> Path:
    """The same folder, its index calibrated."""
    shutil.copytree(made / "calibration", place / "index" / "calibration")
    return place


def fit(surefind: Callable, *options: str):
    return surefind("calibrate", "index", "queries", "--no-doubt", "--precision", "0.8", *options)


def test_a_calibration_says_what_it_was_made_with_and_what_it_promises(
    surefind, place: Path, monkeypatch
):
    monkeypatch.setattr(calibrating, "STEPS", 5)
    done = surefind("calibrate", "index", "queries", "--precision", "0.8")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("index, 144 images: calibrated 20")
    assert lines[0].endswith(", 288 queries of 24 classes (queries)")
    assert "confidence  nearest distance  d₁/d₂₀" in lines[3]
    assert [line.split()[0] for line in lines[5:9]] == ["AUROC", "ECE,", "of", "Brier,"]
    assert "judged by a fit to other classes" in done.out
    assert "at least 80 % is right, with probability 90 %: confidence from 0." in done.out
    assert "in 90 % of queries" in done.out
    assert "at most 1 % is called foreign" in done.out
    for stage in ("encoding", "looking around every image", "learning which images are vague"):
        assert stage in done.err.splitlines()


def test_json_is_the_summary_of_what_is_kept(surefind, place: Path):
    told = json.loads(fit(surefind, "--json").out)
    with Index.open(place / "index") as index:
        assert index.calibration is not None
        kept = json.loads(json.dumps(index.calibration.summary()))
    assert told == kept
    assert told["promise"]["precision"] == 0.8
    assert told["origin"]["queries"] == 288


def test_options_reach_the_fit(surefind, place: Path):
    options = ("--probability", "0.8", "--ahead", "900", "--miss", "0.3", "--foreign-rate", "0.05")
    told = json.loads(fit(surefind, *options, "--json").out)
    assert (told["promise"]["probability"], told["promise"]["ahead"]) == (0.8, 900)
    assert told["showing"]["miss"] == 0.3
    assert told["foreign_rate"] == 0.05
    assert "doubt" not in told["columns"]


def test_a_precision_that_cannot_be_promised_exits_with_3_and_confidence_is_kept(
    surefind, place: Path
):
    done = surefind("calibrate", "index", "queries", "--no-doubt", "--precision", "0.999")
    assert done.code == 3
    assert "Cannot promise 0.999 with 288 queries of 24 classes: the most" in done.out
    assert "nothing is called a match" in done.out
    found = surefind("search", "index", "queries/class00", "--json")
    results = json.loads(found.out)["results"]
    assert {result["verdict"] for result in results} <= {"unsure", "foreign"}
    assert all(0 < result["confidence"] < 1 for result in results)
    assert found.code in (3, 4)


def test_without_data_the_images_of_the_index_are_asked(surefind, place: Path):
    done = surefind("calibrate", "index", "--no-doubt", "--precision", "0.5", "--json")
    told = json.loads(done.out)["origin"]
    assert (told["source"], told["queries"], told["gallery"]) == ("the index itself", 144, 144)


def test_copies_are_left_out_and_their_number_is_told(surefind, place: Path):
    plain = surefind("calibrate", "index", "--no-doubt", "--precision", "0.5")
    assert "copies" not in plain.out
    with Index.open(place / "index") as index:
        files = sorted((place / "photos" / "class00").iterdir())
        names, facts = [f"again {file.name}" for file in files], [{"label": "class00"}] * 6
        index.add(files, ids=names, metadata=facts, duplicates="keep")
    done = surefind("calibrate", "index", "--no-doubt", "--precision", "0.5")
    right = "first hits are right"
    told = "Left out: 6 images that are copies of a query, by content or by an equal vector."
    assert done.out.splitlines()[1] == told
    assert [line for line in done.out.splitlines() if right in line] == [
        line for line in plain.out.splitlines() if right in line
    ]
    assert f"copies       {told}" in surefind("info", "index").out
    kept = json.loads(surefind("info", "index", "--json").out)["calibration"]["origin"]
    assert kept["copies"] == 6


def test_a_part_of_the_data_is_asked(surefind, place: Path):
    done = fit(surefind, "--part", "test", "--json")
    assert json.loads(done.out)["origin"]["classes"] == 12  # of 24, the last


def test_images_that_are_in_the_index_are_not_their_own_hits(surefind, place: Path):
    own = json.loads(surefind("calibrate", "index", "--no-doubt", "--json").out)
    same = json.loads(surefind("calibrate", "index", "photos", "--no-doubt", "--json").out)
    assert own["quality"]["right"] == same["quality"]["right"] < 1


def test_what_weakens_the_promise_is_a_warning(surefind, place: Path):
    done = fit(surefind, "--part", "test")
    assert "warning: only 12 classes" in done.err


def test_a_plot_is_drawn(surefind, place: Path):
    done = fit(surefind, "--plot", "figures/plot.png")
    assert done.out.splitlines()[-1] == "drawn in figures/plot.png"
    assert min(decode(place / "figures" / "plot.png").shape[-2:]) > 300


def test_later_queries_of_the_same_kind_look_alike(surefind, calibrated: Path):
    done = surefind("calibrate", "index", "later", "--check")
    assert (done.code, done.out) == (
        0,
        "these 96 queries look like those of the calibration\n",
    )


def test_queries_that_have_changed_are_told_with_what_changed(surefind, calibrated: Path):
    done = surefind("calibrate", "index", "photos", "--check")  # each finds itself
    assert done.code == 3
    assert "these 144 queries are unlike those of the calibration:" in done.out
    assert "distance: values are smaller than when calibrated" in done.out
    told = json.loads(surefind("calibrate", "index", "photos", "--check", "--json").out)
    assert told["queries"] == 144
    assert "distance" in {shift["name"] for shift in told["shifts"]}


def test_a_check_needs_no_labels_and_passes_over_what_cannot_be_read(surefind, calibrated: Path):
    flat = calibrated / "flat"
    flat.mkdir()
    for number, picture in enumerate(sorted((calibrated / "later").rglob("*.png"))):
        shutil.copy(picture, flat / f"{number}.png")
    (flat / "bad\x1b.png").write_bytes(b"no picture")
    done = surefind("calibrate", "index", "flat", "--check")
    assert (done.code, "these 96 queries look like" in done.out) == (0, True)
    assert "bad�.png: not an image" in done.err


BAD_OPTIONS = {
    "--precision 1": "precision: expected a share between 0 and 1, got 1.0",
    "--precision nan": "precision: expected a share",
    "--probability 0": "probability: expected a share",
    "--miss -0.1": "miss: expected a share",
    "--foreign-rate 1": "foreign_rate: expected a share",
    "--part tset": "did you mean 'test'",
    "--plot plot.bmp": "cannot draw plot.bmp",
    "--plot plot.png --check": "--check, --plot: expected one of them",
    "--check": "index is not calibrated",
}


@pytest.mark.parametrize("options", BAD_OPTIONS)
def test_bad_options_are_one_error_before_any_work(surefind, place: Path, options: str):
    done = surefind("calibrate", "index", "queries", *options.split())
    assert (done.code, done.out) == (1, "")
    assert BAD_OPTIONS[options] in done.err
    assert done.err.startswith("error: ")
    assert not (place / "index" / "calibration").exists()


@pytest.mark.parametrize("options", [["--part", "test"], ["--check"]])
def test_options_that_need_data_say_so(surefind, place: Path, options: list[str]):
    done = surefind("calibrate", "index", *options)
    assert done.code == 1
    assert "DATA" in done.err and "fix:" in done.err


def few(folder: Path, classes: int, per_class: int, source: Path) -> None:
    """Some of the queries, the classes in folders; none at the top."""
    pictures = iter(sorted(source.rglob("*.png")))
    for number in range(classes):
        (folder / f"c{number}").mkdir(parents=True)
        for name in range(per_class):
            shutil.copy(next(pictures), folder / f"c{number}" / f"{name}.png")


@pytest.mark.parametrize(
    ("classes", "per_class", "message"),
    [
        (6, 5, "expected at least 50 labelled queries, got 30 (of 30 queries of 6 classes)"),
        (1, 60, "expected at least 4 classes, got 1 (of 60 queries of 1 classes)"),
    ],
)
def test_too_little_data_is_one_error_that_says_how_much_is_needed(
    surefind, place: Path, classes: int, per_class: int, message: str
):
    few(place / "little", classes, per_class, place / "queries")
    done = surefind("calibrate", "index", "little")
    assert (done.code, done.out) == (1, "")
    assert message in done.err
    assert "fix: " in done.err and "encoding" not in done.err


def test_data_without_labels_is_one_error(surefind, place: Path):
    few(place / "one", 1, 60, place / "queries")
    done = surefind("calibrate", "index", "one/c0")
    assert (done.code, done.out) == (1, "")
    assert "DATA: expected images with labels (or places)" in done.err
    assert "a sub-folder per class" in done.err


@pytest.mark.parametrize("data", [[], ["queries"]])
def test_an_index_without_labels_is_one_error(surefind, place: Path, model: Path, data: list[str]):
    few(place / "one", 1, 60, place / "queries")
    surefind("index", model, "one/c0", "-o", "unlabelled")
    done = surefind("calibrate", "unlabelled", *data, "--no-doubt")
    assert (done.code, done.out) == (1, "")
    assert "with labels (or places)" in done.err and "fix:" in done.err


def test_too_small_an_index_is_one_error(surefind, place: Path, finished: Path):
    shutil.copytree(finished, place / "small")
    done = surefind("calibrate", "small", "queries", "--no-doubt")
    assert (done.code, done.out) == (1, "")
    assert "index: expected at least 22 images, got 20" in done.err


def test_first_hits_that_are_all_right_say_nothing_of_wrong_ones(surefind, place: Path):
    write_noisy_pictures(place / "clear", per_class=4, seed=3, noises=(5,))
    done = surefind("calibrate", "index", "clear", "--no-doubt")
    assert (done.code, done.out) == (1, "")
    assert f"at least {LEAST_OF_EACH} queries whose first hit is wrong, got 0" in done.err
    assert "fix:" in done.err


def test_the_calibration_of_another_index_is_one_error(
    surefind, calibrated: Path, finished: Path, model: Path
):
    other = Encoder.load(model)
    Encoder.create(other.config, seed=7).save(calibrated / "other_model")
    surefind("index", "other_model", "photos", "-o", "other")
    shutil.copytree(calibrated / "index" / "calibration", calibrated / "other" / "calibration")
    for command in (("search", "other", "queries/class00/0.png"), ("info", "other")):
        done = surefind(*command)
        assert (done.code, done.out) == (1, "")
        assert "is the calibration of another index" in done.err
        assert "fix: calibrate again" in done.err


@pytest.mark.parametrize("name", ["calibration.json", "neighbourhoods-*.safetensors"])
def test_a_damaged_calibration_is_one_error_until_it_is_made_again(
    surefind, calibrated: Path, name: str
):
    (file,) = (calibrated / "index" / "calibration").glob(name)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    for command in (("search", "index", "queries/class00/0.png"), ("info", "index")):
        done = surefind(*command)
        assert (done.code, done.out) == (1, "")
        assert file.name in done.err and "fix: calibrate again" in done.err
    done = surefind("verify", "index")
    assert done.code == 1
    assert file.name in done.out and "fix: calibrate again" in done.out
    assert fit(surefind).code == 0
    assert surefind("verify", "index").code == 0
