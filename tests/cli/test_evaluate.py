"""surefind evaluate of an index, as a user calls it; of a model: tests/reports."""

import json
from pathlib import Path

import numpy as np
import pytest
from labelled_index import make_index, make_queries
from stores import forget_calibration

from surefind.reports.report import ReportFolder


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Two indexes, and files of queries; not to be changed."""
    folder = tmp_path_factory.mktemp("shop")
    make_index(folder / "index", precision=0.7).close()
    make_index(folder / "plain", calibrate=False).close()
    asked = make_queries()
    asked.save(folder / "asked.npz")
    make_queries(known_only=True).save(folder / "known.npz")
    np.savez(folder / "unlabelled.npz", vectors=asked.vectors)
    np.savez(folder / "narrow.npz", vectors=asked.vectors[:, :7], labels=asked.labels)
    return folder


def test_a_good_index_prints_its_tables_and_a_sentence_and_writes_a_report(surefind, made: Path):
    done = surefind("evaluate", made / "index", made / "known.npz", "-o", "report")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].endswith(f"200 images: 200 queries of 25 classes ({made / 'known.npz'})")
    assert "left out: 4 queries, in the index" in lines
    assert max(map(len, lines[3:])) <= 95 and "…" not in done.out
    table = [line.strip().split("  ")[0] for line in lines]
    for row in (
        "with labels", "surefind's confidence", "label vote of 10", "without labels",
        "nearest distance d₁", "d₁/d₁₀", "d₁/d₂₀", "cosine + Platt",
    ):  # fmt: skip
        assert row in table
    assert "of the answers are right (70 % were guaranteed)." in done.out
    assert lines[-1] == "report: report/report.html"
    facts = json.loads(ReportFolder(Path("report")).results.read_text())
    assert (facts["queries"], facts["kept"], facts["data"]) == (200, True, str(made / "known.npz"))
    assert facts["command"].startswith("surefind evaluate ")


def test_a_guarantee_that_is_not_kept_exits_with_3_and_json_says_so(surefind, made: Path, tmp_path: Path):
    asked = make_queries()
    wrong = [f"thing {(int(label.split()[1]) + 7) % 25}" for label in asked.labels]
    np.savez(tmp_path / "wrong.npz", vectors=asked.vectors, species=wrong)
    done = surefind("evaluate", made / "index", "wrong.npz", "--label", "species", "--json")
    assert done.code == 3
    facts = json.loads(done.out)
    assert (facts["guaranteed"], facts["kept"]) == (True, False)
    assert facts["sentences"][1].endswith("calibrate again with queries like these.")
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("index", "data", "options", "message"),
    [
        ("plain", "asked.npz", (), "plain, which is not calibrated\n  fix: surefind calibrate"),
        ("index", "unlabelled.npz", (), "unlabelled.npz has no labels"),
        ("index", "nowhere.npz", (), "nowhere.npz is not there"),
        ("index", "narrow.npz", (), "expected vectors of one model, (N, 16), got shape (245, 7)"),
        ("index", "asked.npz", ("--ood", "photos"), "--ood: expected a model, not an index"),
        ("index", "asked.npz", ("--split", "val"), "--split: expected an index of images, got"),
        ("index", "asked.npz", ("--runtime", "onnx"), "has no model"),
        ("index", "asked.npz", ("-o", "a file/report"), "cannot write"),
    ],
)
def test_bad_input_is_one_message(surefind, made: Path, index, data, options, message):
    Path("a file").touch()
    forget_calibration(made / "plain")
    done = surefind("evaluate", made / index, made / data, *options)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ") and message in done.err


def test_a_model_needs_a_folder_for_its_report(surefind, made: Path):
    done = surefind("evaluate", made, made / "asked.npz")
    assert done.code == 2
    assert "a folder for the report is needed" in done.err
    done = surefind("evaluate", made, "photos", "-o", "report", "--label", "species")
    assert (done.code, "--label: expected an index, not a model" in done.err) == (1, True)


def test_class_folders_are_queries_and_those_of_the_calibration_are_a_warning(surefind, calibrated: Path):
    command = ("evaluate", calibrated / "index", calibrated / "queries")
    done = surefind(*command)
    assert "144 images: 288 queries of 24 classes" in done.out
    assert "warning: the index was calibrated with these queries" in done.err
    done = surefind(*command, "--split", "test", "--json")
    assert json.loads(done.out)["classes"] == 12
    done = surefind(*command, "--runtime", "onnx")
    assert (done.code, "surefind export" in done.err) == (1, True)
