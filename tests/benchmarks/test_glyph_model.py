"""The encoder of glyphs that some benchmarks need: given, trained, or not to be had."""

from collections.abc import Sequence
from pathlib import Path

import all as command
import pytest
from all import parse, places_of
from all_parts import Part
from stub_benchmarks import SUCCEEDS, stub


class Trainings:
    """What was asked to be trained; a model is written unless it shall fail."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.reason = ""

    def __call__(self, words: Sequence[str], log: Path, limit: float) -> str:
        self.asked.append(list(words))
        model = Path(words[words.index("-o") + 1])
        if not self.reason:
            model.mkdir(parents=True)
            (model / "model.safetensors").touch()
        return self.reason


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Trainings:
    found = Trainings()
    monkeypatch.setattr(command, "run_logged", found)
    return found


@pytest.fixture
def needs_glyphs(tmp_path: Path) -> Part:
    return stub(tmp_path, "letters", SUCCEEDS, needs=("glyphs",))


def glyphs(folder: Path, parts: Sequence[Part], *words: str) -> list[str]:
    options = parse(["--results", str(folder / "results"), *words], parts)
    return places_of(options, parts).get("glyphs", [])


def test_one_is_trained_where_none_is_given(
    tmp_path: Path, trainings: Trainings, needs_glyphs: Part
) -> None:
    assert glyphs(tmp_path, [needs_glyphs]) == [str(tmp_path / "results/glyphs-model")]
    assert trainings.asked[0][:4] == ["-m", "surefind", "train", "glyphs"]


def test_one_that_is_given_is_taken(
    tmp_path: Path, trainings: Trainings, needs_glyphs: Part
) -> None:
    assert glyphs(tmp_path, [needs_glyphs], "--glyphs", "mine") == ["mine"]
    assert not trainings.asked


def test_none_is_trained_for_benchmarks_that_need_none(
    tmp_path: Path, trainings: Trainings
) -> None:
    assert glyphs(tmp_path, [stub(tmp_path, "one", SUCCEEDS)]) == []
    assert not trainings.asked


def test_none_is_trained_in_a_quick_run(
    tmp_path: Path, trainings: Trainings, needs_glyphs: Part
) -> None:
    assert glyphs(tmp_path, [needs_glyphs], "--quick") == []
    assert not trainings.asked


def test_resume_takes_the_one_that_was_trained(
    tmp_path: Path, trainings: Trainings, needs_glyphs: Part
) -> None:
    first = glyphs(tmp_path, [needs_glyphs])
    assert glyphs(tmp_path, [needs_glyphs], "--resume") == first
    assert len(trainings.asked) == 1


def test_a_training_that_fails_leaves_the_benchmark_without_a_model(
    tmp_path: Path, trainings: Trainings, needs_glyphs: Part
) -> None:
    trainings.reason = "no fonts"
    assert glyphs(tmp_path, [needs_glyphs]) == []
