"""surefind figures: pictures of the theory, and of reports."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from surefind.cli.options import JsonOption
from surefind.errors import InvalidArgument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from surefind.reports.result import Report


class FigureName(StrEnum):
    """Written down again: where they are at home, matplotlib is loaded with them."""

    ALL = "all"
    LOSS = "loss"
    SCENARIOS = "scenarios"
    VARIANCE_GRADIENTS = "variance-gradients"
    APPROXIMATION = "approximation"
    CALIBRATION = "calibration"
    RISK_COVERAGE = "risk-coverage"
    OOD = "ood"
    LADDER = "ladder"
    SUREST = "surest"
    LEAST_SURE = "least-sure"
    CONFIDENT_BUT_WRONG = "confident-but-wrong"
    EXTREMES = "extremes"
    PAIRS = "pairs"
    OWN_AND_FOREIGN = "own-and-foreign"


THEORY = (
    FigureName.LOSS,
    FigureName.SCENARIOS,
    FigureName.VARIANCE_GRADIENTS,
    FigureName.APPROXIMATION,
)
Measured = dict[str, dict[str, float]]  # by dimension and method

_MEASURES = {
    "approximation": "largest error of P(tau < x)",
    "variance-gradients": "share of well-ordered triplets whose variances all shrink",
}


def figures(
    names: Annotated[
        list[FigureName], typer.Argument(metavar="NAME", help="What to draw, or all.")
    ],
    report: Annotated[
        list[str] | None,
        typer.Option(
            help="A folder of surefind evaluate, or LABEL=FOLDER. Several are compared; those "
            "labelled GROUP/NAME share the panels of their group."
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to draw into.")] = Path(
        "figures"
    ),
    file_format: Annotated[
        Literal["png", "svg", "pdf"], typer.Option("--format", help="Of the files.")
    ] = "png",
    ranking: Annotated[
        Literal["means", "expected"], typer.Option(help="How the gallery is ordered.")
    ] = "means",
    seed: Annotated[
        int, typer.Option(help="Of the triplets of approximation and variance-gradients.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Draw the theory, and what surefind evaluate found.

    Theory: loss, scenarios, variance-gradients, approximation. all without --report is these.

    Reports: calibration, risk-coverage, ood, ladder. Queries beside their hits: surest, least-sure,
    confident-but-wrong. extremes: the twelve surest and the twelve least sure queries. pairs:
    queries with a right nearest hit, by cov[Δ]. own-and-foreign: the least sure of in-catalogue and
    foreign queries together.

    Of several reports, calibration, ood and own-and-foreign are one figure; each of the others is
    drawn once per report, in a folder of its label.

    Examples:
        surefind figures loss scenarios --format svg
        surefind figures all --report report -o figures
        surefind figures calibration ood --report TripReg=out/a --report Bayes=out/b
    """
    from surefind.cli.output import bars
    from surefind.files import make_writable
    from surefind.reports.figures.style import ENDINGS, save
    from surefind.reports.report import write_figures

    if output.suffix in ENDINGS:
        raise InvalidArgument(
            "--output", expected="a folder", got=str(output), fix="choose the kind by --format"
        )
    everything = FigureName.ALL in names
    wanted = _wanted(names, with_report=bool(report))
    reports = _read(report or [], ranking)
    make_writable(output)
    files: list[Path] = []
    left_out: dict[str, str] = {}
    measured: dict[str, Measured] = {}
    with bars() as shown:
        for name in shown.track(wanted, description="drawing"):
            if name not in THEORY:
                written = write_figures(
                    [name], reports, output, ranking=ranking, ending=file_format, lenient=everything
                )
                files += written.files
                left_out |= written.left_out
                continue
            figure, found = _draw_theory(name, seed)
            save(figure, output / f"{name}.{file_format}")
            files.append(output / f"{name}.{file_format}")
            measured |= {name: found} if found else {}
    if as_json:
        drawn = [str(path) for path in files]
        print(json.dumps({"drawn": drawn, "left_out": left_out, "measured": measured}))
        return
    for title, table in measured.items():
        _print_table(title, table)
    for stem, problem in left_out.items():
        print(f"without {stem}: {problem}")
    for path in files:
        print(f"drawn in {path}")


def _wanted(names: list[FigureName], *, with_report: bool) -> list[FigureName]:
    """Each once, in the order of the help; all is what there is something to draw from."""
    if FigureName.ALL in names:
        return [n for n in FigureName if n != FigureName.ALL and (with_report or n in THEORY)]
    without = [] if with_report else [name for name in names if name not in THEORY]
    if without:
        raise InvalidArgument(
            "--report",
            expected=f"a folder of surefind evaluate to draw {without[0]} of",
            got="none",
            fix="name one, e.g. --report report",
        )
    return [name for name in FigureName if name in names]


def _read(given: list[str], ranking: str) -> "list[Report]":
    """The reports, each with a label of its own."""
    from surefind.reports.result import read_report
    from surefind.validation import check_choice

    reports: list[Report] = []
    for text in given:
        label, _, folder = ("", "", text) if Path(text).exists() else text.rpartition("=")
        if any(part in ("", ".", "..") for part in label.split("/") if label):
            raise InvalidArgument("--report", expected="LABEL=FOLDER", got=repr(text))
        report = read_report(Path(folder), label=label)
        check_choice("ranking", ranking, tuple(report.result.rankings))
        if report.label in [other.label for other in reports]:
            raise InvalidArgument(
                "--report",
                expected="a label of its own for each",
                got=f"{report.label!r} twice",
                fix="write --report LABEL=FOLDER",
            )
        reports.append(report)
    return reports


def _draw_theory(name: FigureName, seed: int) -> "tuple[Figure, Measured]":
    """The figure, and what was measured for it."""
    from surefind.reports.figures import theory

    if name == FigureName.APPROXIMATION:
        return theory.draw_approximation(seed=seed)
    if name == FigureName.VARIANCE_GRADIENTS:
        return theory.draw_variance_gradients(seed=seed)
    return theory.draw_loss() if name == FigureName.LOSS else theory.draw_scenarios(), {}


def _print_table(name: str, measured: Measured) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("D", *next(iter(measured.values())), title=f"{name}: {_MEASURES[name]}")
    for dim, values in measured.items():
        table.add_row(dim, *(f"{value:.2g}" for value in values.values()))
    Console().print(table)
