"""All stages, as a caller of the library sees them."""

import json
from pathlib import Path

import numpy as np
import pytest
from small_demo import TINY, Finished, Interrupting

from surefind import Index, Upgrade
from surefind.confidence.match_model import folds_of
from surefind.demo import run_demo
from surefind.demo.results import by_signals
from surefind.demo.run import KEPT_OUT
from surefind.images.catalog import Catalog
from surefind.reports.result import EvalResult
from surefind.vectors.reader import read_vectors

REUSED = 7  # stages whose work is kept


def test_the_stages_are_told_in_order(finished: Finished):
    titles = [stage.title for stage in finished.result.stages]
    assert [title.split()[0] for title in titles] == [f"{number}/8" for number in range(1, 9)]
    expected = [(what, title) for title in titles for what in ("began", "ended")]
    assert finished.heard.events == expected


def test_everything_that_is_named_is_there(finished: Finished):
    paths = finished.result.as_dict()["paths"]
    assert [name for name, path in paths.items() if not Path(path).exists()] == []
    assert EvalResult.read(finished.folder / "report" / "results.json").ladder is not None
    assert Upgrade.load(paths["vectors_model"]).dim == 64


def test_what_is_asked_is_not_in_the_index(finished: Finished):
    with Index.open(finished.folder / "index") as index:
        per_class = TINY.per_class - KEPT_OUT
        assert len(index) == TINY.classes // 4 * per_class
    asked = finished.result.as_dict()["asked"]
    assert sum(asked["kept_out"].values()) == TINY.classes // 4 * KEPT_OUT
    assert asked["symbols"] == TINY.foreign


def test_there_is_one_query_of_each_kind(finished: Finished):
    queries = finished.result.questions
    assert [query.kind for query in queries] == ["easy", "hard", "foreign"]
    assert sorted(path.name for path in (finished.folder / "queries").iterdir()) == [
        "easy.png", "foreign.png", "hard.png",
    ]  # fmt: skip
    assert queries[1].result.verdict == "unsure"
    assert queries[2].result.verdict == "no_match"
    assert not queries[2].as_dict()["right"]


def test_the_table_is_complete(finished: Finished):
    rows = finished.result.rows
    assert [(row.encoder, row.told_by) for row in rows] == [
        ("triplet baseline", "nearest distance"),
        ("triplet baseline", "cosine + Platt"),
        ("triplet baseline", "d₁/d₂₀"),
        ("triplet baseline", "your own vectors + upgrade"),
        ("Bayesian encoder", "d₁/d₂₀"),
        ("Bayesian encoder", "learned variance"),
        ("Bayesian encoder", "surefind's confidence"),
    ]
    probabilities = [False, True, False, True, False, False, True]
    assert [row.ece is not None for row in rows] == probabilities
    assert [row.floor is not None for row in rows] == probabilities
    assert len({row.recall for row in rows[:4]}) == len({row.recall for row in rows[4:]}) == 1
    assert all(0 < row.auroc < 1 and 0 <= row.answered <= 1 for row in rows)


def test_confidence_and_signals_are_about_the_same_queries(finished: Finished):
    vectors = read_vectors(finished.folder / "vectors.npz")
    with Index.open(finished.folder / "index") as index:
        rows = index.items(vectors.ids)
        assert rows.ids == vectors.ids
        labels = [facts["label"] for facts in rows.metadata]
        curve = index.calibration.curve
    assert tuple(labels) == vectors.labels
    catalog = Catalog(Path(), vectors.ids, labels=vectors.labels)
    told = by_signals(rows.embeddings, catalog, learned=True)
    assert np.array_equal(told["query_var"].right, np.array(curve.right))
    assert np.array_equal(folds_of(catalog.codes), np.array(curve.fold))


def test_a_second_run_uses_what_is_there_and_says_the_same(finished: Finished):
    before = {path: path.stat().st_mtime_ns for path in (finished.folder / "model").rglob("*.*")}
    again = finished.again()
    assert [stage.reused for stage in again.stages] == [True] * REUSED + [False]
    assert again.rows == finished.result.rows
    assert again.reading == finished.result.reading
    assert [q.as_dict() for q in again.questions] == [
        q.as_dict() for q in finished.result.questions
    ]
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_the_result_is_json(finished: Finished):
    told = json.loads(json.dumps(finished.result.as_dict(), allow_nan=False))
    assert len(told["stages"]) == 8
    assert set(told["stages"][0]) == {"number", "name", "figure", "seconds", "reused"}
    columns = {"encoder", "told_by", "recall", "auroc", "ece", "floor", "answered"}
    assert set(told["table"][0]) == columns
    assert {query["verdict"] for query in told["queries"]} <= {"match", "unsure", "no_match"}
    assert told["next"][0].startswith(f"surefind serve {finished.folder}/index --samples ")


def test_an_interrupted_demo_is_completed_with_the_same_result(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("surefind.reports.report.ReportFolder.write", lambda *_: None)  # slow
    folder = tmp_path / "demo"
    for stage, part in (("2/8", 1), ("2/8", 4), ("3/8", 1), ("4/8", 1), ("5/8", 1), ("7/8", 1)):
        with pytest.raises(KeyboardInterrupt):
            run_demo(folder, size=TINY, watch=Interrupting(stage, part).watch)
    completed = run_demo(folder, size=TINY)
    assert [stage.reused for stage in completed.stages[:4]] == [True] * 4
    assert completed.rows == finished.result.rows
    assert [q.result.verdict for q in completed.questions] == [
        q.result.verdict for q in finished.result.questions
    ]
