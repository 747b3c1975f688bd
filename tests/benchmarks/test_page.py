"""The page: what stands above the table, warnings, reasons."""

import doctest
import platform
from pathlib import Path

import all as command
import all_machine
import all_page
import all_rows
import pytest
from all_page import Setting, page
from all_parts import Part
from all_running import Record
from stub_benchmarks import SUCCEEDS, stub

SETTING = Setting(
    size="usual",
    ended="2030-01-02 03:04",
    minutes=31.4,
    versions={"surefind": "1.2.3", "torch": "9.9"},
    commit="abc1234",
    machine="A processor, 2 cores, 23 GB of memory, Linux",
    loads=(0.1, 1.9),
)
DONE = Record(
    "done",
    began="2030-01-02T02:50:00+00:00",
    seconds=90.0,
    others=0.02,
    result={"ratio": 2.5},
)


@pytest.fixture
def part(tmp_path: Path) -> Part:
    return stub(tmp_path, "one", SUCCEEDS)


def test_it_says_when_with_what_and_where(part: Part) -> None:
    text = page(SETTING, [part], {"one": DONE})
    assert "2030-01-02 03:04 UTC, after 31 minutes" in text
    assert "surefind 1.2.3, torch 9.9 (commit abc1234)" in text
    assert "A processor, 2 cores, 23 GB of memory, Linux" in text


def test_it_says_when_each_was_measured(part: Part) -> None:
    text = page(SETTING, [part], {"one": DONE})
    assert "| one | 2030-01-02 02:50 | 1.5 min | 0.02 | `python benchmarks/one.py" in text


def test_an_idle_machine_is_not_warned_of(part: Part) -> None:
    assert "not idle" not in page(SETTING, [part], {"one": DONE})


def test_a_load_before_the_start_is_warned_of(part: Part) -> None:
    busy = SETTING._replace(loads=(3.2, 1.9))
    assert "not idle**: a load average of 3.20" in page(busy, [part], {"one": DONE})


def test_others_at_work_during_a_benchmark_are_warned_of(part: Part) -> None:
    record = Record("done", others=0.8, result={"ratio": 2.5})
    assert "while these ran: one (0.8)" in page(SETTING, [part], {"one": record})


def test_a_missed_promise_is_told_plainly(part: Part) -> None:
    missed = part._replace(rows=lambda _: [all_rows.Row("speed", "0.5 x", ">= 2", met=False)])
    assert "| speed | 0.5 \N{MULTIPLICATION SIGN} | >= 2 | **no** |" in page(
        SETTING, [missed], {"one": DONE}
    )


def test_groups_stand_in_their_order(tmp_path: Path) -> None:
    parts = [stub(tmp_path, name, SUCCEEDS, group=name.upper()) for name in ("b", "a")]
    text = page(SETTING, parts, {"a": DONE, "b": DONE})
    assert text.index("| **B** |") < text.index("ratio of b") < text.index("| **A** |")


def test_every_line_of_the_table_has_five_cells(part: Part) -> None:
    record = Record("failed", reason="a | b")
    lines = [
        line.replace("\\|", "")
        for line in page(SETTING, [part], {"one": record}).splitlines()
        if line.startswith("|")
    ]
    assert all(line.count("|") == 6 for line in lines)


def test_the_machine_is_described_but_not_named() -> None:
    told = all_machine.machine()
    assert "cores" in told
    assert platform.node() not in told


def test_the_code_is_the_same_until_a_measured_line_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_machine, "ROOT", tmp_path)
    for folder in ("src", "benchmarks"):
        (tmp_path / folder).mkdir()
    (tmp_path / "benchmarks/all_page.py").write_text("layout = 1")
    (tmp_path / "benchmarks/loss.py").write_text("rounds = 1")
    before = all_machine.code()
    (tmp_path / "benchmarks/all_page.py").write_text("layout = 2")
    assert all_machine.code() == before
    (tmp_path / "benchmarks/loss.py").write_text("rounds = 2")
    assert all_machine.code() != before


@pytest.mark.parametrize("module", [command, all_page, all_rows], ids=lambda m: m.__name__)
def test_examples_in_docstrings_are_right(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.attempted
    assert not found.failed
