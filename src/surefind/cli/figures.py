"""surefind figures: pictures of the theory, and of a report."""

from pathlib import Path
from typing import Annotated

import typer

from surefind.cli.drawing import (
    errors,
    print_errors,
    read,
    tell,
    write_approximation,
    write_from,
    write_loss,
    write_scenarios,
)
from surefind.cli.registering import Command, Debug, Quiet, register
from surefind.cli.voice import speak

figures_app = typer.Typer(
    help="Draw the theory, or a report.",
    epilog="Examples:\nsurefind figures loss\nsurefind figures all --report report",
    no_args_is_help=True,
)

Output = Annotated[Path, typer.Option("--output", "-o", help="PNG, SVG or PDF file.")]
Report = Annotated[Path, typer.Argument(help="A folder that surefind evaluate made.")]
RankingName = Annotated[str, typer.Option(help="How the gallery is ordered: means or expected.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what was drawn as JSON.")]


@figures_app.callback()
def figures(quiet: Quiet = False, debug: Debug = False) -> None:
    """Draw the theory, or a report."""
    speak(quiet=quiet, debug=debug)


def approximation(
    output: Output = Path("figures/approximation.png"),
    seed: Annotated[int, typer.Option(help="Of the random triplets.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Draw how near the normal and the saddlepoint approximation are to the exact law of tau.

    Example: surefind figures approximation -o approximation.png
    """
    simulations = write_approximation(output, seed)
    if as_json:
        found = {str(each.dim): errors(each) for each in simulations}
        tell([output], as_json=True, largest_errors=found)
        return
    print_errors(simulations)
    tell([output], as_json=False)


def loss(output: Output = Path("figures/loss.png"), as_json: AsJson = False) -> None:
    """Draw the Bayesian triplet loss beside the plain one.

    Example: surefind figures loss -o loss.svg
    """
    tell([write_loss(output)], as_json=as_json)


def scenarios(output: Output = Path("figures/scenarios.png"), as_json: AsJson = False) -> None:
    """Draw where the loss pulls the means and the variances of three triplets.

    Example: surefind figures scenarios -o scenarios.svg
    """
    tell([write_scenarios(output)], as_json=as_json)


def calibration(
    report: Report,
    output: Output = Path("figures/calibration.png"),
    ranking: RankingName = "means",
    as_json: AsJson = False,
) -> None:
    """Draw whether the model is as sure as it is right.

    Example: surefind figures calibration report -o calibration.svg
    """
    tell([write_from(report, "calibration", output, ranking=ranking)], as_json=as_json)


def risk_coverage(
    report: Report,
    output: Output = Path("figures/risk-coverage.png"),
    ranking: RankingName = "means",
    as_json: AsJson = False,
) -> None:
    """Draw the error rate when only the surest queries are answered.

    Example: surefind figures risk-coverage report -o risk-coverage.svg
    """
    tell([write_from(report, "risk-coverage", output, ranking=ranking)], as_json=as_json)


def ood(
    report: Report,
    output: Output = Path("figures/ood.png"),
    ranking: RankingName = "means",
    as_json: AsJson = False,
) -> None:
    """Draw how unsure the model is of foreign queries.

    Example: surefind figures ood report -o ood.svg
    """
    tell([write_from(report, "ood", output, ranking=ranking)], as_json=as_json)


def ladder(
    report: Report,
    output: Output = Path("figures/ladder.png"),
    ranking: RankingName = "means",
    as_json: AsJson = False,
) -> None:
    """Draw how uncertainty rises as queries are made worse.

    Example: surefind figures ladder report -o ladder.svg
    """
    tell([write_from(report, "ladder", output, ranking=ranking)], as_json=as_json)


def gallery(
    report: Report,
    output: Output = Path("figures/gallery.png"),
    which: Annotated[
        str, typer.Option(help="Queries: surest, vaguest or confident-but-wrong.")
    ] = "confident-but-wrong",
    ranking: RankingName = "means",
    as_json: AsJson = False,
) -> None:
    """Draw queries beside their five nearest pictures.

    Example: surefind figures gallery report --which vaguest
    """
    from surefind.choices import check_choice
    from surefind.reports.figures.selection import SELECTIONS

    check_choice("which", which, tuple(SELECTIONS))
    tell([write_from(report, which, output, ranking=ranking)], as_json=as_json)


def draw_all(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the PNG files.")
    ] = Path("figures"),
    report: Annotated[
        Path | None, typer.Option(help="Also draw this folder of surefind evaluate.")
    ] = None,
    ranking: RankingName = "means",
    as_json: AsJson = False,
) -> None:
    """Draw everything: the theory, and a report if one is named.

    Example: surefind figures all --report report -o figures
    """
    from surefind.reports.figures.of_report import DRAWINGS
    from surefind.reports.figures.of_report import draw_all as draw_report

    without: dict[str, str] = {}
    drawn: list[Path] = []
    if report:
        result, queries = read(report, ranking)
        without = draw_report(result, queries, output, ranking=ranking)
        drawn = [output / f"{name}.png" for name in DRAWINGS if name not in without]
    drawn += [write_loss(output / "loss.png"), write_scenarios(output / "scenarios.png")]
    simulations = write_approximation(output / "approximation.png")
    if not as_json:
        for name, problem in without.items():
            print(f"without {name}: {problem}")
        print_errors(simulations)
    tell([*drawn, output / "approximation.png"], as_json=as_json, without=without)


COMMANDS: dict[str, Command] = {
    "approximation": approximation,
    "loss": loss,
    "scenarios": scenarios,
    "calibration": calibration,
    "risk-coverage": risk_coverage,
    "ood": ood,
    "ladder": ladder,
    "gallery": gallery,
    "all": draw_all,
}
for name, command in COMMANDS.items():
    register(figures_app, command, name=name)
