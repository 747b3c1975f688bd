"""surefind figures, as a user runs it."""

import dataclasses
from pathlib import Path

import pytest
from evaluations import make_evaluation
from typer.testing import CliRunner

from surefind.cli.figures import figures_app
from surefind.errors import SurefindError
from surefind.reports.figures import approximation, of_report


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    result, queries = make_evaluation(folder, queries=120, foreign=0)
    result.write(folder / "results.json")
    queries.write(folder / "queries.csv")
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: object) -> str:
    done = CliRunner().invoke(figures_app, [str(argument) for argument in arguments])
    if done.exception is not None:
        raise done.exception
    return done.output


@pytest.mark.parametrize("name", ["loss", "scenarios"])
def test_the_theory_is_drawn_where_the_default_says(name: str):
    assert f"drawn in figures/{name}.png" in run(name)
    assert Path(f"figures/{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["calibration", "risk-coverage", "ladder", "gallery"])
def test_a_report_is_drawn(name: str, report: Path):
    assert "drawn in out/figure.svg" in run(name, report, "-o", "out/figure.svg")
    assert "<svg" in Path("out/figure.svg").read_text()


@pytest.mark.parametrize("which", ["surest", "vaguest"])
def test_a_gallery_of_other_queries_and_another_ranking(which: str, report: Path):
    run("gallery", report, "--which", which, "--ranking", "expected", "-o", "gallery.svg")
    assert of_report.TITLES[which] in Path("gallery.svg").read_text()


def test_all_draws_theory_and_report_and_tells_what_is_missing(report: Path, monkeypatch):
    few = {name: of_report.DRAWINGS[name] for name in ("ood", "ladder")}
    monkeypatch.setattr(of_report, "DRAWINGS", few)
    monkeypatch.setattr(approximation, "DIMENSIONS", (1, 2))
    told = run("all", "--report", report, "-o", "out")
    assert "without ood: the report has no foreign queries" in told
    drawn = {"approximation.png", "ladder.png", "loss.png", "scenarios.png"}
    assert {path.name for path in Path("out").iterdir()} == drawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("loss", "-o", "loss.txt"), "name a .png, .svg or .pdf file"),
        (("calibration", "nowhere"), "surefind evaluate"),
        (("ood", "REPORT"), "--ood DATA"),
        (("gallery", "REPORT", "--which", "sure"), "did you mean 'surest'"),
        (("ladder", "REPORT", "--ranking", "mean"), "did you mean 'means'"),
        (("all", "--report", "nowhere"), "surefind evaluate"),
    ],
)
def test_what_cannot_be_drawn_is_one_clear_error(
    arguments: tuple[str, ...], message: str, report: Path, tmp_path: Path
):
    with pytest.raises(SurefindError, match=message):
        run(*(report if argument == "REPORT" else argument for argument in arguments))
    assert list(tmp_path.iterdir()) == []


def test_a_report_without_a_ladder_says_how_to_get_one(report: Path, tmp_path: Path):
    result, queries = of_report.read_report(report)
    dataclasses.replace(result, ladder=None).write(tmp_path / "results.json")
    queries.write(tmp_path / "queries.csv")
    with pytest.raises(SurefindError, match="--ladder"):
        run("ladder", tmp_path)
