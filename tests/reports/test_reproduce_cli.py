"""surefind reproduce, with a fake evaluation and models of four steps."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import surefind.cli.errors
from surefind.cli.reproduce import reproduce
from surefind.reports.reproduce import reproduce as run_rows

app = typer.Typer()
app.command()(reproduce)


@pytest.fixture(autouse=True)
def _no_real_work(work, monkeypatch):
    monkeypatch.setitem(run_rows.__kwdefaults__, "evaluate", work.evaluate)
    monkeypatch.setattr(surefind.cli.errors, "StopRequest", lambda: lambda: False)


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cub"], "did you mean 'cub200'"),
        (["cub200"], "where is cub200"),
        (["cars196", "--data", "."], "where is cub200? The models of this table are trained on it"),
        (["cub200", "--data", ".", "--train-data", "."], "leave it out; it is for cars196"),
        (["cub200", "--data", ".", "--backbone", "vgg"], "backbone: expected one of"),
        (["cub200", "--data", ".", "--scale", "gpu"], "scale: expected one of"),
        (["glyphs", "--rows", "tripplet"], "did you mean 'triplet'"),
        (["glyphs", "--seeds", "0"], "seeds: expected a whole number of at least 1"),
        (["glyphs", "--set", "loss.margn=1"], "did you mean 'margin'"),
    ],
)
def test_a_wrong_argument_is_one_clear_error(arguments, message, tmp_path: Path, monkeypatch):
    monkeypatch.delenv("SUREFIND_DATA", raising=False)
    done = run(*arguments, "-o", tmp_path / "out")
    assert message in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_two_tables_share_a_folder_and_the_data_to_train_on_is_remembered(pictures, plan, monkeypatch):
    """The folder says what its models are trained on; it is not asked for again."""
    monkeypatch.delenv("SUREFIND_DATA", raising=False)
    tiny = ("encoder.backbone=tiny", "encoder.weights=none", "optimiser.freeze_first=[]")
    settings = [part for one in (*plan.settings, *tiny) for part in ("--set", one)]
    common = ["-o", plan.output, "--scale", "cpu", "--rows", "triplet", *settings]
    birds = f"folder:{pictures}"
    assert run("cub200", "--data", birds, *common).exit_code == 0
    cars = run("cars196", "--data", birds, *common)
    assert cars.exit_code == 0, cars.output
    assert "model is there" in cars.stderr
    for table in (plan.output, plan.output / "cars196"):
        assert "| Triplet | paper |" in (table / "table.md").read_text()
    assert "0.451" in (plan.output / "cars196" / "table.md").read_text()
    assert "0.648" in (plan.output / "table.md").read_text()
    again = run("cars196", "--data", birds, *common, "--json")
    row = json.loads(again.stdout)["rows"][0]
    assert (row["paper"]["R@1"], row["ours"]["R@1"]["value"], row["ours"]["R@1"]["std"]) == (0.451, 0.6, None)
