"""surefind figures, as a user runs it."""

import json
from pathlib import Path

import pytest
import typer
from evaluations import make_evaluation
from typer.testing import CliRunner

from surefind.cli.figures import OF_REPORTS, THEORY, figures
from surefind.cli.options import register
from surefind.errors import SurefindError
from surefind.reports.figures import theory
from surefind.reports.report import DRAWINGS


def write(folder: Path, **options) -> Path:
    """Write what `surefind figures` reads of a report without foreign queries."""
    result, queries = make_evaluation(folder, foreign=0, **options)
    result.write(folder / "results.json")
    queries.write(folder / "queries.csv")
    return folder


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("report"))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def small(monkeypatch) -> None:
    """Simulations of a second."""
    monkeypatch.setattr(theory, "LAW_DIMENSIONS", (1, 2))
    monkeypatch.setattr(theory, "GRADIENT_DIMENSIONS", (1, 2))
    monkeypatch.setattr(theory, "SCALES", (0.1, 1.0))
    monkeypatch.setattr(theory, "_TRIPLETS", {"clt": 100, "exact": 20})


def run(*arguments: object) -> str:
    app = typer.Typer()
    register(app, figures)
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception is not None:
        raise done.exception
    return done.output


def test_the_names_are_those_that_can_be_drawn():
    assert set(OF_REPORTS) == set(DRAWINGS)


def test_reports_are_compared_under_their_labels(report: Path):
    given = ("--report", f"R50/TripReg={report}", "--report", f"R50/Bayes={report}", "--ranking", "expected")
    told = run("calibration", "risk-coverage", *given, "--format", "svg")
    assert told.count("drawn in") == 3
    drawn = Path("figures/calibration.svg").read_text()
    assert "TripReg" in drawn and "Bayes" in drawn
    assert Path("figures/R50/Bayes/risk-coverage.svg").is_file()


def test_all_draws_theory_and_report_and_tells_what_is_missing(report: Path, small):
    told = run("all", "--report", report, "-o", "out")
    assert "without ood: the report has no foreign queries" in told
    assert "share of well-ordered triplets whose variances all shrink" in " ".join(told.split())
    drawn = {*THEORY, *OF_REPORTS} - {"ood", "own-and-foreign"}
    assert {path.name for path in Path("out").iterdir()} == {f"{name}.png" for name in drawn}


def test_all_without_a_report_is_the_theory(small):
    told = json.loads(run("all", "--json"))
    assert told["drawn"] == [f"figures/{name}.png" for name in THEORY]
    assert set(told["measured"]) == {"approximation", "variance-gradients"}
    assert set(told["measured"]["approximation"]["2"]) == {"clt", "saddlepoint"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("loss", "-o", "loss.svg"), "choose the file type by --format"),
        (("loss", "-o", "taken/deeper"), "cannot write taken/deeper: Not a directory"),
        (("calibration",), "a report of surefind evaluate"),
        (("calibration", "--report", "nowhere"), "surefind evaluate"),
        (("calibration", "--report", "../x=REPORT"), "LABEL=FOLDER"),
        (("calibration", "--report", "REPORT", "--report", "REPORT"), "'model' twice"),
        (("ood", "--report", "REPORT"), "--ood DATA"),
    ],
)
def test_what_cannot_be_drawn_is_one_clear_error(
    arguments: tuple[str, ...], message: str, report: Path, tmp_path: Path
):
    (tmp_path / "taken").touch()
    with pytest.raises(SurefindError, match=message):
        run(*(argument.replace("REPORT", str(report)) for argument in arguments))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "taken"]


def test_a_model_without_variance_has_one_ranking(tmp_path: Path):
    write(tmp_path, queries=24, learned=False)
    with pytest.raises(SurefindError, match="one of means"):
        run("calibration", "--report", tmp_path, "--ranking", "expected")
