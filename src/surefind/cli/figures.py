"""surefind figures: figures of the theory and of reports."""

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from surefind.cli.options import JsonOption
from surefind.errors import InvalidArgument

if TYPE_CHECKING:
    from surefind.reports.result import Report

# Repeated here because their own modules import matplotlib.
THEORY = ("loss", "scenarios", "variance-gradients", "approximation")
OF_REPORTS = (
    "calibration", "risk-coverage", "ood", "ladder", "extremes", "pairs", "own-and-foreign",
)  # fmt: skip
FigureName = StrEnum("FigureName", {name: name for name in ("all", *THEORY, *OF_REPORTS)})  # type: ignore[misc]

_MEASURES = {
    "approximation": "largest error of P(tau < x)",
    "variance-gradients": "share of well-ordered triplets whose variances all shrink",
}


def figures(
    names: Annotated[list[FigureName], Argument(metavar="NAME", help="Figures to draw, or all.")],
    report: Annotated[list[str] | None, Option(help="Report folder, or LABEL=FOLDER. Repeat to compare.")] = None,
    output: Annotated[Path, Option("--output", "-o", help="Folder for the figures.")] = Path("figures"),
    file_format: Annotated[Literal["png", "svg", "pdf"], Option("--format", help="File type.")] = "png",
    ranking: Annotated[Literal["means", "expected"], Option(help="Evaluated order of hits.")] = "means",
    as_json: JsonOption = False,
) -> None:
    """Draw figures of the theory and of the reports of surefind evaluate.

    Theory: loss, scenarios, variance-gradients, approximation (all of these without --report).

    Reports: calibration, risk-coverage, ood, ladder. extremes: the twelve surest and the twelve
    least sure queries. pairs: queries with a right nearest hit, by cov[Δ]. own-and-foreign: the
    least sure of in-catalogue and foreign queries together.

    With several reports, calibration, ood and own-and-foreign are one figure; the others are drawn
    once per report, in a folder named by its label.

    Examples:
        surefind figures loss scenarios --format svg
        surefind figures all --report report -o figures
        surefind figures calibration ood --report TripReg=out/a --report Bayes=out/b
    """
    from rich.console import Console

    from surefind.cli.output import bars
    from surefind.cli.rendering import plain_table
    from surefind.reports.figures import theory
    from surefind.reports.figures.style import ENDINGS, save
    from surefind.reports.report import write_figures
    from surefind.storage import make_writable

    if output.suffix in ENDINGS:
        raise InvalidArgument("--output", expected="a folder", got=str(output), fix="choose the file type by --format")
    reports = _read(report or [], ranking)
    chosen = _chosen(names, reports)
    make_writable(output)
    files: list[Path] = []
    left_out: dict[str, str] = {}
    measured: dict[str, dict[str, dict[str, float]]] = {}  # by figure, dimension and method
    with bars() as shown:
        for name in shown.track(chosen, description="drawing"):
            if name in OF_REPORTS:
                drawn, missing = write_figures(
                    [name], reports, output,
                    ranking=ranking, ending=file_format, lenient="all" in names,
                )  # fmt: skip
                files += drawn
                left_out |= missing
                continue
            draw = getattr(theory, f"draw_{name.replace('-', '_')}")
            if name in _MEASURES:
                figure, measured[name] = draw()
            else:
                figure = draw()
            files.append(output / f"{name}.{file_format}")
            save(figure, files[-1])
    if as_json:
        facts = {"drawn": files, "left_out": left_out, "measured": measured}
        print(json.dumps(facts, default=str))
        return
    for name, found in measured.items():
        title = f"{name}: {_MEASURES[name]}"
        table = plain_table("D", *next(iter(found.values())), title=title)
        for dim, values in found.items():
            table.add_row(dim, *(f"{value:.2g}" for value in values.values()))
        Console().print(table)
    for stem, problem in left_out.items():
        print(f"without {stem}: {problem}")
    for path in files:
        print(f"drawn in {path}")


def _chosen(names: "Sequence[FigureName]", reports: "Sequence[Report]") -> list[str]:
    """Return each name once, in the order of the help; `all` is what can be drawn."""
    known = [*THEORY, *OF_REPORTS]
    if "all" in names:
        return known if reports else list(THEORY)
    chosen = [name for name in known if name in names]
    if not reports and (without := [name for name in chosen if name in OF_REPORTS]):
        raise InvalidArgument("--report", expected=f"a report of surefind evaluate to draw {without[0]}", got="none")
    return chosen


def _read(given: list[str], ranking: str) -> "list[Report]":
    """Read reports, each with its own label."""
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
            raise InvalidArgument("--report", expected="different labels (LABEL=FOLDER)", got=f"{report.label!r} twice")
        reports.append(report)
    return reports
