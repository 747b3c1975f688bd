"""benchmarks/all.py with stubs of benchmarks, and the rows of the table."""

# ruff: noqa: RUF001  (the signs of multiplication)

import doctest
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import all as command
import pytest
import targets
from targets import BENCHMARKS, Benchmark, Row

OPENING = """
import json, sys, time
from pathlib import Path
output = Path(sys.argv[sys.argv.index("-o") + 1])
"""
SUCCEEDS = "output.write_text(json.dumps({'seconds': {'ours': 2.5, 'theirs': 1.0}, 'spreads': {'ours': 0.03}}))"
FAILS = "sys.exit('/somewhere/private/photos is broken')"


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


class Bench:
    """The command in its own folder, with stubs of benchmarks."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.page, self.benchmarks = folder, folder / "page.md", list[Benchmark]()

    def stub(self, name: str, does: str) -> None:
        script = self.folder / f"{name}.py"
        script.write_text(OPENING + does + "\n")
        rows = (
            Row(f"ratio of {name}", lambda f: f["seconds"]["ours"] / f["seconds"]["theirs"], "≤ 3", peer="theirs"),
            Row(f"missing of {name}", lambda f: f["no such key"]),
            Row(f"seconds of {name}", lambda f: f["seconds"]["ours"], "≤ 1 s", why="two thirds are decoding"),
        )
        self.benchmarks.append(Benchmark(name, "speed", 0.1, "--data $DATA", "--tiny", rows, str(script)))

    def run(self, *words: str) -> int:
        given = ["--results", f"{self.folder}/results", "--history", f"{self.folder}/history.jsonl"]
        return command.main([*given, "-o", str(self.page), *words], benchmarks=self.benchmarks)

    def line(self, words: str) -> str:
        (line,) = [line for line in self.page.read_text().splitlines() if words in line]
        return line


def test_what_fails_or_hangs_is_a_row_with_the_reason_and_the_rest_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for name, does in {"bad": FAILS, "odd": "pass", "slow": "time.sleep(60)", "good": SUCCEEDS}.items():
        bench.stub(name, does)
    assert bench.run("--limit", "0.1") == 1
    assert "failed: photos is broken" in bench.line("ratio of bad")
    assert "private/photos" in (tmp_path / "results/usual/bad.log").read_text()
    assert "failed: no figures" in bench.line("ratio of odd")
    assert "failed: not ready after 0.1 minutes" in bench.line("ratio of slow")
    assert bench.line("ratio of good").endswith("| 2.50 × | – | ≤ 3 | yes | theirs |")
    assert "failed: no such figure: KeyError 'no such key'" in bench.line("missing of good")
    assert bench.line("- seconds of good") == "- seconds of good: two thirds are decoding"
    assert "- ratio of good" not in bench.page.read_text()
    assert "`python benchmarks/good.py --data $DATA`" in bench.line("good.py")


@pytest.mark.parametrize(("seconds", "said"), [(2.6, "2.50 ×"), (2.9, "2.50 × **worse**"), (1.0, "2.50 ×")])
def test_a_run_says_which_rows_became_worse_by_more_than_their_noise(tmp_path: Path, seconds: float, said: str) -> None:
    bench = Bench(tmp_path)
    bench.stub("one", SUCCEEDS)
    bench.stub("two", SUCCEEDS)
    bench.run()
    (tmp_path / "one.py").write_text(OPENING + SUCCEEDS.replace("2.5", str(seconds)))
    bench.run("--only", "one")
    assert f"| {seconds:.2f} × | {said} | ≤ 3 |" in bench.line("ratio of one")
    assert "2.50 ×" in bench.line("ratio of two")
    runs = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    ones, twos = ([f"{name}: {what} of {name}" for what in ("ratio", "seconds")] for name in ("one", "two"))
    assert [list(run["rows"]) for run in runs] == [[*ones, *twos], ones]
    assert runs[1]["rows"]["one: ratio of one"] == [seconds, 0.03]


def test_rows_have_names_of_their_own_and_targets_that_can_be_judged() -> None:
    names = [(benchmark.name, row.what) for benchmark in BENCHMARKS for row in benchmark.rows]
    assert len(set(names)) == len(names)
    for benchmark in BENCHMARKS:
        assert benchmark.script.is_file()
        for row in benchmark.rows:
            assert targets.met(1.0, row.target) in ((True, False) if row.target else (None,))
            assert row.show(1.0)
    assert sum(benchmark.minutes for benchmark in BENCHMARKS) <= 60


@pytest.mark.parametrize("module", [command, targets], ids=lambda module: module.__name__)
def test_examples_in_docstrings_are_right(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.attempted
    assert not found.failed
