"""All stages, as a caller of the library sees them."""

import json
from pathlib import Path

import pytest
from command import Surefind
from small_demo import TINY, Finished, interrupting

from surefind import Index, InvalidFile, Upgrade
from surefind.demo import DemoResult, run_demo
from surefind.demo.run import KEPT_OUT, best_with, claim, foreign_question
from surefind.images.catalog import Catalog
from surefind.reports.index_evaluation import SignalQuality
from surefind.reports.result import EvalResult
from surefind.search.hits import Hit, SearchResult

REUSED = 7  # stages whose work is kept


def signals(result: DemoResult) -> list[dict[str, SignalQuality]]:
    return [found.signals for found in result.evaluations.values()]


def test_stages_are_reported_in_order(finished: Finished):
    titles = [stage.title for stage in finished.result.stages]
    assert [title.split()[0] for title in titles] == [f"{number}/8" for number in range(1, 9)]
    expected = [(what, title) for title in titles for what in ("began", "ended")]
    assert finished.events == expected


def test_everything_that_is_named_is_there(finished: Finished):
    paths = finished.result.as_dict()["paths"]
    assert [name for name, path in paths.items() if not Path(path).exists()] == []
    assert EvalResult.read(finished.folder / "report" / "results.json").ladder is not None
    assert Upgrade.load(paths["vectors_model"]).dim == 64


def test_what_is_asked_is_not_in_the_index(finished: Finished):
    with Index.open(finished.folder / "index") as index:
        per_class = TINY.per_class - KEPT_OUT
        assert len(index) == TINY.classes // 4 * per_class
    assert finished.result.symbols["queries"] == TINY.foreign


def test_there_is_one_query_of_each_kind(finished: Finished):
    queries = finished.result.questions
    assert [query.kind for query in queries] == ["easy", "hard", "foreign"]
    assert sorted(path.name for path in (finished.folder / "queries").iterdir()) == [
        "easy.png", "foreign.png", "hard.png",
    ]  # fmt: skip
    assert queries[1].result.verdict == "unsure"
    assert queries[2].result.verdict != "match"  # so few classes hardly tell what is not theirs
    assert not queries[2].as_dict()["right"]


def test_both_indexes_are_evaluated_with_the_same_queries(finished: Finished):
    found = finished.result.evaluations
    assert list(found) == ["triplet baseline", "Bayesian encoder"]
    for its in found.values():
        assert (its.queries, its.images) == (12 * KEPT_OUT, 12 * (TINY.per_class - KEPT_OUT))
        assert set(its.signals) == {
            "confidence", "label_vote", "query_var", "nearest_distance", "ratio_1_10", "ratio_1_20",
            "nearest_cosine",
        }  # fmt: skip
    assert found["triplet baseline"].evidence == "neighbourhoods"
    assert found["Bayesian encoder"].evidence != "neighbourhoods"


def test_the_table_is_that_of_surefind_evaluate(finished: Finished, surefind: Surefind):
    paths = finished.result.as_dict()["paths"]
    done = surefind("evaluate", paths["vectors_index"], paths["vectors_queries"], "--json")
    table = finished.result.as_dict()["evaluations"]["triplet baseline"]
    assert json.loads(done.out)["signals"] == json.loads(json.dumps(table["signals"]))


def test_a_second_run_uses_what_is_there_and_says_the_same(finished: Finished):
    before = {path: path.stat().st_mtime_ns for path in (finished.folder / "model").rglob("*.*")}
    again = run_demo(finished.folder, size=TINY)
    assert [stage.reused for stage in again.stages] == [True] * REUSED + [False]
    assert signals(again) == signals(finished.result)
    assert [q.as_dict() for q in again.questions] == [q.as_dict() for q in finished.result.questions]
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_an_interrupted_demo_is_completed_with_the_same_result(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("surefind.demo.run.write_report", lambda *_: None)  # slow
    folder = tmp_path / "demo"
    for stage, part in (("2/8", 1), ("2/8", 4), ("3/8", 1), ("4/8", 1), ("5/8", 1), ("7/8", 1)):
        with pytest.raises(KeyboardInterrupt):
            run_demo(folder, size=TINY, watch=interrupting(stage, part))
    completed = run_demo(folder, size=TINY)
    assert [stage.reused for stage in completed.stages[:4]] == [True] * 4
    assert signals(completed) == signals(finished.result)
    assert [q.result.verdict for q in completed.questions] == [q.result.verdict for q in finished.result.questions]


# the folder


def test_a_folder_of_somebody_else_is_refused_and_left_alone(tmp_path: Path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"meow")
    with pytest.raises(InvalidFile, match=r"is no demo, and is not empty\n  fix: name a new"):
        run_demo(tmp_path, size=TINY)
    assert [path.name for path in tmp_path.rglob("*")] == ["photos", "cat.jpg"]


def test_a_demo_is_taken_again_with_the_same_settings_only(tmp_path: Path):
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / ".DS_Store").touch()  # counts as empty
    claim(folder, TINY, seed=0)
    claim(folder, TINY, seed=0)
    with pytest.raises(InvalidFile, match="with seed 0, not 1"):
        claim(folder, TINY, seed=1)
    with pytest.raises(InvalidFile, match="made with size"):
        claim(folder, type(TINY)(), seed=0)
    (folder / "demo.json").write_text("[]")
    with pytest.raises(InvalidFile, match="cannot read"):
        claim(folder, TINY, seed=0)


# the three queries


def result(verdict: str, *, confidence: float = 0.5, label: str = "a") -> SearchResult:
    hit = Hit("1", None, 0.1, 0.2, 0.1, 0.1, {"label": label})
    return SearchResult("query", (hit,), 0.1, "mean", confidence=confidence, verdict=verdict, novelty_p_value=0.5)


class Answering:
    """An index with a given verdict on the chess board; any other picture is foreign."""

    def __init__(self, board: str) -> None:
        self.board = board

    def search(self, query: bytes | Path, k: int) -> SearchResult:
        return result("no_match" if isinstance(query, Path) else self.board)


def test_the_verdict_counts_before_the_number():
    results = [result("unsure"), result("match"), result("match"), result("no_match")]
    assert best_with(results, "match", by=[0.9, 0.3, 0.4, 1.0]) == 2
    assert best_with(results, "no_match", by=[0.9, 0.3, 0.4, -1.0]) == 3
    assert best_with(results[:1] * 2, "match", by=[0.1, 0.2]) == 1  # none has it


def test_the_foreign_query_is_a_chess_board_or_the_strangest_symbol(tmp_path: Path):
    for name in ("one.png", "two.png"):
        (tmp_path / name).write_text(name)
    symbols, path = Catalog(tmp_path, ("one.png", "two.png")), tmp_path / "foreign.png"
    theirs = [result("unsure"), result("no_match")]
    asked = foreign_question(Answering("no_match"), symbols, theirs, path)
    assert "chess board" in asked.about
    assert path.read_bytes().startswith(b"\x89PNG")
    assert (asked.label, asked.as_dict()["right"]) == (None, False)
    asked = foreign_question(Answering("unsure"), symbols, theirs, path)
    assert "symbols" in asked.about
    assert path.read_text() == "two.png"
