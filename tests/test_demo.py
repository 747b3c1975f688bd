"""The demo: its stages, its table, its folder, and the command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import Surefind
from small_demo import TINY, Finished, Heard, Interrupting

from surefind import CalibrationTargets, Index, InvalidFile, Upgrade
from surefind.demo import HELD_OUT, best_with, claim, run_demo
from surefind.reports.result import EvalResult
from surefind.search.hits import SearchResult

ROOT = Path(__file__).parents[1]
REUSED = 7  # stages whose work is kept


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A finished demo; running it again changes nothing."""
    folder, heard = tmp_path_factory.mktemp("demo") / "demo", Heard()
    result = run_demo(folder, size=TINY, watch=heard.watch)
    return Finished(folder, result, heard)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command run at this size."""
    monkeypatch.setattr("surefind.demo.DemoSize", lambda: TINY)


def test_the_stages_are_reported_in_order(finished: Finished):
    titles = [stage.title for stage in finished.result.stages]
    assert [title.split()[0] for title in titles] == [f"{number}/8" for number in range(1, 9)]
    expected = [(what, title) for title in titles for what in ("began", "ended")]
    assert finished.heard.events == expected


def test_the_report_and_the_upgrade_are_written(finished: Finished):
    assert EvalResult.read(finished.folder / "report" / "results.json").ladder is not None
    assert (finished.folder / "report" / "report.html").is_file()
    assert Upgrade.load(finished.folder / "vectors-model").dim == 64


def test_queries_are_not_in_the_index(finished: Finished):
    with Index.open(finished.folder / "index") as index:
        assert len(index) == TINY.classes // 4 * (TINY.per_class - HELD_OUT)
    verdicts = finished.result.verdicts
    assert sum(verdicts["held_out"].values()) == TINY.classes // 4 * HELD_OUT
    assert verdicts["right_matches"] <= verdicts["held_out"]["match"]
    assert verdicts["foreign_symbols"] <= verdicts["symbols"] == TINY.foreign


def test_there_is_one_query_of_each_kind(finished: Finished):
    queries = finished.result.queries
    assert [query.kind for query in queries] == ["easy", "hard", "foreign"]
    assert sorted(path.name for path in (finished.folder / "queries").iterdir()) == [
        "easy.png", "foreign.png", "hard.png",
    ]  # fmt: skip
    assert queries[1].result.verdict == "unsure"
    assert (queries[2].label, queries[2].as_dict()["right"]) == (None, False)


def test_an_example_has_the_verdict_if_any_query_has_it():
    def results(*verdicts: str) -> list[SearchResult]:
        return [SearchResult("query", (), 0.1, "mean", verdict=verdict) for verdict in verdicts]

    known = results("unsure", "match", "match", "no_match")
    assert best_with(known, "match", by=[0.9, 0.3, 0.4, 1.0]) == 2
    assert best_with(known, "no_match", by=[0.9, 0.3, 0.4, -1.0]) == 3
    assert best_with(results("unsure", "unsure"), "match", by=[0.1, 0.2]) == 1


def test_the_result_is_json_with_a_complete_table(finished: Finished):
    facts = json.loads(json.dumps(finished.result.as_dict(), allow_nan=False))
    assert [(row["encoder"], row["signal"]) for row in facts["table"]] == [
        ("triplet baseline", "nearest distance"),
        ("triplet baseline", "d₁/d₂₀"),
        ("triplet baseline", "your own vectors + upgrade"),
        ("Bayesian encoder", "nearest distance"),
        ("Bayesian encoder", "d₁/d₂₀"),
        ("Bayesian encoder", "surefind's confidence"),
    ]
    assert all(0 < row["auroc"] < 1 and 0 <= row["recall"] <= 1 for row in facts["table"])
    assert [row["answered"] is None for row in facts["table"]] == [True, True, False] * 2
    assert len(facts["stages"]) == 8
    assert set(facts["stages"][0]) == {"number", "name", "summary", "seconds", "reused"}
    assert {query["verdict"] for query in facts["queries"]} <= {"match", "unsure", "no_match"}
    assert facts["next"][0].startswith(f"surefind serve {finished.folder}/index --samples ")


def test_a_second_run_reuses_the_first(finished: Finished):
    before = {path: path.stat().st_mtime_ns for path in (finished.folder / "model").rglob("*.*")}
    again = run_demo(finished.folder, size=TINY)
    assert [stage.reused for stage in again.stages] == [True] * REUSED + [False]
    assert again.table == finished.result.table
    assert [query.as_dict() for query in again.queries] == [
        query.as_dict() for query in finished.result.queries
    ]
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_a_calibration_for_other_targets_is_made_again(finished: Finished):
    targets = CalibrationTargets(precision=0.75, novelty_level=0.2)
    with Index.open(finished.folder / "index") as index:
        index.calibrate(targets=targets, learn_variance=False)
    again = run_demo(finished.folder, size=TINY)
    assert [stage.reused for stage in again.stages[3:6]] == [True, False, True]
    assert again.table == finished.result.table


def test_an_interrupted_demo_is_completed_with_the_same_result(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("surefind.reports.report.ReportFolder.write", lambda *_: None)  # slow
    folder = tmp_path / "demo"
    for stage, step in (("2/8", 1), ("2/8", 4), ("3/8", 1), ("4/8", 1), ("5/8", 1), ("7/8", 1)):
        with pytest.raises(KeyboardInterrupt):
            run_demo(folder, size=TINY, watch=Interrupting(stage, step).watch)
    completed = run_demo(folder, size=TINY)
    assert [stage.reused for stage in completed.stages[:4]] == [True] * 4
    assert completed.table == finished.result.table
    assert [query.result.verdict for query in completed.queries] == [
        query.result.verdict for query in finished.result.queries
    ]


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"meow")
    with pytest.raises(InvalidFile, match=r"is neither a demo nor empty\n  fix: name a new"):
        run_demo(tmp_path, size=TINY)
    assert [path.name for path in tmp_path.rglob("*")] == ["photos", "cat.jpg"]


def test_a_demo_is_continued_with_the_same_settings_only(tmp_path: Path):
    (tmp_path / ".DS_Store").touch()  # hidden files do not count
    claim(tmp_path, TINY, seed=0)
    claim(tmp_path, TINY, seed=0)
    with pytest.raises(InvalidFile, match="another seed: 0, not 1"):
        claim(tmp_path, TINY, seed=1)
    with pytest.raises(InvalidFile, match="another size"):
        claim(tmp_path, type(TINY)(), seed=0)
    for content in ("", "3", '{"seed": '):
        (tmp_path / "demo.json").write_text(content)
        with pytest.raises(InvalidFile, match="cannot read"):
            claim(tmp_path, TINY, seed=0)


def plain_check(finished: Finished, table: list[dict], place: Path):
    (place / "table.json").write_text(json.dumps({"table": table}))
    return subprocess.run(
        [sys.executable, ROOT / "examples/plain_check.py", finished.folder, place / "table.json"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )


def test_a_plain_script_arrives_at_the_same_table_and_notices_another(
    finished: Finished, tmp_path: Path
):
    table = finished.result.as_dict()["table"]
    done = plain_check(finished, table, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for row in table:
        assert f"{row['encoder']}, {row['signal']}" in done.stdout
    table[2] |= {"auroc": table[2]["auroc"] + 0.01}
    done = plain_check(finished, table, tmp_path)
    assert done.returncode == 1
    assert "they differ by up to 0.01" in done.stderr


@pytest.mark.usefixtures("tiny")
def test_stages_go_to_stderr_and_the_table_to_stdout(
    surefind: Surefind, finished: Finished, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("surefind.cli.demo.PACKAGES", ("no_such_package",))
    done = surefind("demo", "-o", finished.folder)
    assert done.code == 0
    lines = done.err.splitlines()
    assert lines[0].startswith("1/8 drawing images")
    assert [line for line in lines if line.startswith("8/8")][-1].endswith(" s)")
    assert done.out.count("d₁/d₂₀") >= 2
    assert all(f"{row['auroc']:.3f}" in done.out for row in finished.result.table)
    assert done.out.rstrip().endswith("surefind train photos/ -o model")
    assert "surefind serve" in done.out
    assert "For the page:     pip install 'surefind[serve]'" in done.out


@pytest.mark.usefixtures("tiny")
def test_the_page_is_served_at_the_end_and_json_is_all_of_stdout(
    surefind: Surefind, finished: Finished, monkeypatch: pytest.MonkeyPatch
):
    served = []
    monkeypatch.setattr(
        "surefind.cli.serve.serve", lambda index, **options: served.append((index, options))
    )
    folder = finished.folder
    done = surefind("demo", "-o", folder, "--serve", "--port", "0", "--json")
    assert done.code == 0
    assert json.loads(done.out)["table"] == finished.result.table
    assert served == [
        (folder / "index", {"port": 0, "samples": folder / "queries", "report": folder / "report"})
    ]


def test_serving_without_the_service_is_refused_before_the_work(
    surefind: Surefind, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("surefind.cli.demo.PACKAGES", ("no_such_package",))
    done = surefind("demo", "--serve")
    assert done.code == 1
    assert "pip install 'surefind[serve]'" in done.err
    assert list(Path().iterdir()) == []
