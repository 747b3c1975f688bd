"""benchmarks/all.py with stubs of benchmarks, and the rows of the table."""

import doctest
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import all as command
import all_rows
import pytest
from all import BENCHMARKS, SIZES, Part, Size, main
from all_rows import Row

EXAMPLES = Path(__file__).parent / "examples"
OPENING = """
import json, os, signal, sys, time
from pathlib import Path
output = Path(sys.argv[sys.argv.index("-o") + 1])
runs = Path(__file__).with_suffix(".runs")
runs.write_text((runs.read_text() if runs.exists() else "") + "once ")
"""
SUCCEEDS = "output.write_text(json.dumps({'ratio': 2.5}))"
FAILS = "sys.exit('/somewhere/private/photos is broken')"
WRITES_NOTHING = "print('fine')"
STOPS_ALL = "os.kill(os.getppid(), signal.SIGINT); time.sleep(60)"
HANGS = "time.sleep(60)"


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(command, "code", lambda: "this code")
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


class Bench:
    """The command in its own folder, with stubs of benchmarks."""

    def __init__(self, folder: Path, **does: str) -> None:
        self.folder, self.page = folder, folder / "page.md"
        self.parts = [self.stub(name, text) for name, text in does.items()]

    def stub(self, name: str, does: str) -> Part:
        script = self.folder / f"{name}.py"
        script.write_text(OPENING + does + "\n")
        return Part(
            name=name,
            group="speed",
            about=f"what {name} is about",
            script=script,
            rows=lambda found: [Row(f"ratio of {name}", f"{found['ratio']:.1f} x", ">= 2", True)],
            sizes={size: Size("--size 5", 0.1) for size in SIZES},
            needs=(),
        )

    def run(self, *words: str) -> int:
        given = ["--results", str(self.folder / "results"), "-o", str(self.page)]
        return main([*given, "--data", str(self.folder / "none"), *words], parts=self.parts)

    def line(self, words: str) -> str:
        (line,) = [line for line in self.page.read_text().splitlines() if words in line]
        return line

    @property
    def runs(self) -> list[int]:
        notes = [part.script.with_suffix(".runs") for part in self.parts]
        return [len(note.read_text().split()) if note.exists() else 0 for note in notes]


def test_one_that_fails_or_hangs_is_a_row_with_the_reason_and_the_rest_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, bad=FAILS, odd=WRITES_NOTHING, slow=HANGS, good=SUCCEEDS)
    assert bench.run("--limit", "0.1") == 1
    assert bench.runs == [1, 1, 1, 1]
    assert "failed: photos is broken" in bench.line("what bad is about")
    assert "private/photos" in (tmp_path / "results/usual/bad.log").read_text()
    assert "failed: its figures cannot be read" in bench.line("what odd is about")
    assert "failed: not ready after 0.1 minutes" in bench.line("what slow is about")
    line = bench.line("ratio of good")
    assert line.endswith("| >= 2 | yes | `python benchmarks/good.py --size 5` |")
    table = [line for line in bench.page.read_text().splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {6}


def test_resume_continues_a_stopped_run_and_repeats_what_other_code_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, done=SUCCEEDS, stops=STOPS_ALL, never=SUCCEEDS)
    assert bench.run() == 130
    assert "2.5" in bench.line("ratio of done")
    assert "stopped before its turn" in bench.line("what stops is about")
    assert bench.runs == [1, 1, 0]
    bench.parts[1] = bench.stub("stops", SUCCEEDS)
    assert bench.run("--resume") == 0
    assert bench.runs == [1, 2, 1]
    monkeypatch.setattr(command, "code", lambda: "other code")
    bench.run("--resume")
    assert bench.runs == [2, 3, 2]


@pytest.mark.parametrize("part", BENCHMARKS, ids=lambda part: part.name)
def test_every_benchmark_gives_rows_with_figures_and_a_command_to_show(part: Part) -> None:
    rows = part.rows(json.loads((EXAMPLES / f"{part.name}.json").read_text()))
    assert rows
    assert all(row.what and row.figure for row in rows)
    assert all(row.target for row in rows if row.met is not None)
    for size in SIZES:
        assert part.shown(size).startswith(f"python benchmarks/{part.script.name}")
        assert "{" not in part.shown(size)


def test_a_guarantee_that_was_never_made_is_not_called_kept() -> None:
    found = json.loads((EXAMPLES / "confidence.json").read_text())
    for split in found["features"]["cars, MobileNetV2"]["splits"].values():
        split["guarantees"]["0.9"] = {"precision": None, "answered": 0.0}
    rows = all_rows.confidence(found)
    birds, cars = [row for row in rows if "guaranteed with probability" in row.what]
    assert (birds.met, cars.met) == (True, None)
    assert cars.figure == "0 of 0 (made in 2 splits)"


@pytest.mark.parametrize("module", [command, all_rows], ids=lambda module: module.__name__)
def test_examples_in_docstrings_are_right(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.attempted
    assert not found.failed
