"""The one command, with benchmarks that take no time."""

import signal
from collections.abc import Iterator
from pathlib import Path

import all_running
import pytest
from all import main
from all_page import DASH
from all_parts import Part
from stub_benchmarks import (
    FAILS,
    HANGS,
    STOPS_ALL,
    SUCCEEDS,
    WRITES_ELSE,
    WRITES_NOTHING,
    runs_of,
    stub,
)


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(autouse=True)
def _same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_running, "code", lambda: "this code")


class Bench:
    """The command in a folder of its own."""

    def __init__(self, folder: Path, *parts: Part) -> None:
        self.folder, self.parts, self.page = folder, parts, folder / "page.md"

    def run(self, *words: str) -> int:
        given = ["--results", str(self.folder / "results"), "-o", str(self.page)]
        return main([*given, "--data", str(self.folder / "none"), *words], parts=self.parts)

    def line(self, words: str) -> str:
        (line,) = [line for line in self.page.read_text().splitlines() if words in line]
        return line


def test_each_benchmark_runs_once_and_has_its_row(tmp_path: Path) -> None:
    quick, other = stub(tmp_path, "one", SUCCEEDS), stub(tmp_path, "two", SUCCEEDS)
    bench = Bench(tmp_path, quick, other)
    assert bench.run() == 0
    assert [runs_of(quick), runs_of(other)] == [1, 1]
    line = bench.line("ratio of one")
    assert line.endswith("| >= 2 | yes | `python benchmarks/one.py --size 5` |")


def test_one_that_fails_is_a_row_with_the_reason_and_the_rest_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, stub(tmp_path, "bad", FAILS), stub(tmp_path, "good", SUCCEEDS))
    assert bench.run() == 1
    assert "failed: photos is broken" in bench.line("what bad is about")
    assert "2.5" in bench.line("ratio of good")


def test_its_log_is_kept(tmp_path: Path) -> None:
    Bench(tmp_path, stub(tmp_path, "bad", FAILS)).run()
    assert "private/photos" in (tmp_path / "results/usual/bad.log").read_text()


@pytest.mark.parametrize("does", [WRITES_NOTHING, WRITES_ELSE])
def test_figures_that_cannot_be_read_are_a_failure_of_that_row_alone(
    tmp_path: Path, does: str
) -> None:
    bench = Bench(tmp_path, stub(tmp_path, "odd", does), stub(tmp_path, "good", SUCCEEDS))
    bench.run()
    assert "| failed: " in bench.line("what odd is about")
    assert "2.5" in bench.line("ratio of good")


def test_figures_of_an_earlier_run_are_not_taken_for_those_of_this_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path, stub(tmp_path, "one", SUCCEEDS))
    bench.run()
    bench.parts = (stub(tmp_path, "one", WRITES_NOTHING),)
    assert bench.run() == 1


def test_missing_data_are_told_and_nothing_is_run(tmp_path: Path) -> None:
    part = stub(tmp_path, "photos", SUCCEEDS, needs=("data",))
    bench = Bench(tmp_path, part)
    assert bench.run() == 0
    assert runs_of(part) == 0
    assert "no data: photos and weights: name their folder with --data" in bench.line(
        "what photos is about"
    )


def test_data_that_are_there_are_handed_on(tmp_path: Path) -> None:
    (tmp_path / "data/cub200-2010").mkdir(parents=True)
    part = stub(tmp_path, "photos", SUCCEEDS, needs=("data",))
    bench = Bench(tmp_path, part)
    assert bench.run("--data", str(tmp_path / "data")) == 0
    assert str(tmp_path / "data") in (tmp_path / "results/usual/photos.json").read_text()
    assert str(tmp_path) not in bench.page.read_text()


def test_a_stop_keeps_what_is_done_and_writes_the_table(tmp_path: Path) -> None:
    done, stops, never = (
        stub(tmp_path, name, does)
        for name, does in {"done": SUCCEEDS, "stops": STOPS_ALL, "never": SUCCEEDS}.items()
    )
    bench = Bench(tmp_path, done, stops, never)
    assert bench.run() == 130
    assert "2.5" in bench.line("ratio of done")
    assert "stopped before its turn" in bench.line("what stops is about")
    assert runs_of(never) == 0


def test_resume_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    done, stops = stub(tmp_path, "done", SUCCEEDS), stub(tmp_path, "stops", STOPS_ALL)
    bench = Bench(tmp_path, done, stops)
    bench.run()
    bench.parts = (done, stub(tmp_path, "stops", SUCCEEDS))
    assert bench.run("--resume") == 0
    assert [runs_of(done), runs_of(stops)] == [1, 2]
    assert "2.5" in bench.line("ratio of done")


def test_resume_tries_again_what_failed(tmp_path: Path) -> None:
    bad = stub(tmp_path, "bad", FAILS)
    bench = Bench(tmp_path, bad)
    bench.run()
    bench.run("--resume")
    assert runs_of(bad) == 2


def test_resume_measures_again_what_other_code_has_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = stub(tmp_path, "one", SUCCEEDS)
    bench = Bench(tmp_path, part)
    bench.run()
    monkeypatch.setattr(all_running, "code", lambda: "other code")
    bench.run("--resume")
    assert runs_of(part) == 2


def test_without_resume_everything_is_measured_again(tmp_path: Path) -> None:
    part = stub(tmp_path, "one", SUCCEEDS)
    bench = Bench(tmp_path, part)
    bench.run()
    bench.run()
    assert runs_of(part) == 2


def test_a_record_that_is_broken_is_measured_again(tmp_path: Path) -> None:
    part = stub(tmp_path, "one", SUCCEEDS)
    bench = Bench(tmp_path, part)
    bench.run()
    (tmp_path / "results/usual/one.json").write_text('{"state": ')
    assert bench.run("--resume") == 0
    assert runs_of(part) == 2


def test_only_the_chosen_ones_run_and_the_others_keep_their_rows(tmp_path: Path) -> None:
    first, second, third = (stub(tmp_path, name, SUCCEEDS) for name in ("one", "two", "three"))
    bench = Bench(tmp_path, first, second, third)
    bench.run("--only", "one")
    bench.run("--only", "two")
    assert [runs_of(part) for part in bench.parts] == [1, 1, 0]
    assert "2.5" in bench.line("ratio of one")
    assert "not among those that were chosen" in bench.line("what three is about")


def test_one_that_hangs_is_ended(tmp_path: Path) -> None:
    bench = Bench(tmp_path, stub(tmp_path, "slow", HANGS), stub(tmp_path, "good", SUCCEEDS))
    assert bench.run("--limit", "0.01") == 1
    assert "failed: not ready after 0.01 minutes" in bench.line("what slow is about")
    assert "2.5" in bench.line("ratio of good")


def test_a_quick_run_judges_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, stub(tmp_path, "one", SUCCEEDS))
    bench.run("--quick")
    assert f"| >= 2 | {DASH} |" in bench.line("ratio of one")
    assert "A quick run" in bench.page.read_text()


def test_figures_of_a_quick_run_are_not_taken_for_real_ones(tmp_path: Path) -> None:
    part = stub(tmp_path, "one", SUCCEEDS)
    bench = Bench(tmp_path, part)
    bench.run("--quick")
    bench.run("--resume")
    assert runs_of(part) == 2
