"""The command, with a stand-in for evaluation and models of four steps."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

import surefind.cli.stopping
from surefind.cli.reproduce import reproduce

app = typer.Typer()
app.command()(reproduce)


@pytest.fixture(autouse=True)
def _no_real_work(work, monkeypatch):
    evaluation = SimpleNamespace(evaluate_into=work.evaluate)
    monkeypatch.setitem(sys.modules, "surefind.reports.folder", evaluation)
    monkeypatch.setattr(surefind.cli.stopping, "StopRequest", lambda: lambda: False)


def run(*arguments: str | Path):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def small(plan) -> list[str]:
    rows = ["--rows", "triplet, bayes-gauss"]
    settings = [part for setting in plan.settings for part in ("--set", setting)]
    return ["glyphs", "--data", plan.data, "-o", str(plan.output), *rows, *settings]


def test_the_table_is_printed_and_written(plan):
    done = run(*small(plan))
    assert done.exit_code == 0, done.output
    assert "[2/2] Bayes Gauss, seed 0: evaluating" in done.stderr
    assert "R@1 on validation classes" in done.stderr
    assert "[0.580, 0.620]" in done.stdout
    assert "| Triplet | ours | 1 |" in (plan.output / "table.md").read_text()
    again = run(*small(plan), "--json")
    assert json.loads(again.stdout) == json.loads((plan.output / "table.json").read_text())
    assert "training" not in again.stderr


def test_the_table_is_put_into_a_document(plan, tmp_path: Path):
    document = tmp_path / "results.md"
    document.write_text("# Results\n<!-- begin reproduce-glyphs -->\n<!-- end reproduce-glyphs -->")
    assert run(*small(plan), "--into", document).exit_code == 0
    assert "| Triplet | ours | 1 |" in document.read_text()


def test_a_document_without_a_place_is_refused_before_the_work(plan, tmp_path: Path):
    (tmp_path / "results.md").write_text("# Results\n")
    done = run(*small(plan), "--into", tmp_path / "results.md")
    assert "<!-- begin reproduce-glyphs -->" in str(done.exception)
    assert not plan.output.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cub"], "did you mean 'cub200'"),
        (["cub200"], "where is cub200"),
        (["cub200", "--data", "nowhere"], "nowhere: no such folder"),
        (["glyphs", "--rows", "tripplet"], "did you mean 'triplet'"),
        (["glyphs", "--scale", "gpu"], "did you mean 'cpu'"),
        (["glyphs", "--seeds", "0"], "seeds: expected at least 1"),
        (["glyphs", "--set", "loss.margn=1"], "did you mean 'margin'"),
    ],
)
def test_a_wrong_argument_is_one_clear_error(arguments, message, tmp_path: Path, monkeypatch):
    monkeypatch.delenv("SUREFIND_DATA", raising=False)
    done = run(*arguments, "-o", tmp_path / "out")
    assert message in str(done.exception)
    assert not (tmp_path / "out").exists()
