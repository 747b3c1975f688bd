"""surefind figures: pictures of the theory, and of a report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from surefind.reports.queries import QueryTable
    from surefind.reports.result import EvalResult

figures_app = typer.Typer(help="Draw the theory, or a report.", no_args_is_help=True)

Output = Annotated[Path, typer.Option("--output", "-o", help="PNG, SVG or PDF file.")]
Report = Annotated[Path, typer.Argument(help="A folder that surefind evaluate made.")]
RankingName = Annotated[str, typer.Option(help="How the gallery is ordered: means or expected.")]


@figures_app.callback()
def figures() -> None:
    """Draw the theory, or a report."""


@figures_app.command()
def approximation(
    output: Output = Path("figures/approximation.png"),
    seed: Annotated[int, typer.Option(help="Of the random triplets.")] = 0,
) -> None:
    """Draw how near the normal and the saddlepoint approximation are to the exact law of tau.

    Example: surefind figures approximation -o approximation.png
    """
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from surefind.reports.figures.approximation import (
        DIMENSIONS,
        approximation_figure,
        simulate,
    )

    _make_ready(output)
    console = Console()
    steps = track(
        simulate(DIMENSIONS, seed=seed),
        "simulating",
        total=len(DIMENSIONS),
        console=console,
        transient=True,
    )
    simulations = list(steps)
    table = Table("D", "clt", "saddlepoint", title="largest error of P(tau < x)")
    for simulation in simulations:
        errors = (f"{simulation.error(method):.1e}" for method in ("clt", "saddlepoint"))
        table.add_row(str(simulation.dim), *errors)
    console.print(table)
    _write(approximation_figure(simulations), output)


@figures_app.command()
def loss(output: Output = Path("figures/loss.png")) -> None:
    """Draw the Bayesian triplet loss beside the plain one."""
    from surefind.reports.figures.loss import draw_loss

    _write(draw_loss(), output)


@figures_app.command()
def scenarios(output: Output = Path("figures/scenarios.png")) -> None:
    """Draw where the loss pulls the means and the variances of three triplets."""
    from surefind.reports.figures.scenarios import draw_scenarios

    _write(draw_scenarios(), output)


@figures_app.command()
def calibration(
    report: Report,
    output: Output = Path("figures/calibration.png"),
    ranking: RankingName = "means",
) -> None:
    """Draw whether the model is as sure as it is right.

    Example: surefind figures calibration report -o calibration.svg
    """
    _write_from(report, "calibration", output, ranking)


@figures_app.command("risk-coverage")
def risk_coverage(
    report: Report,
    output: Output = Path("figures/risk-coverage.png"),
    ranking: RankingName = "means",
) -> None:
    """Draw the error rate when only the surest queries are answered."""
    _write_from(report, "risk-coverage", output, ranking)


@figures_app.command()
def ood(
    report: Report, output: Output = Path("figures/ood.png"), ranking: RankingName = "means"
) -> None:
    """Draw how unsure the model is of foreign queries."""
    _write_from(report, "ood", output, ranking)


@figures_app.command()
def ladder(
    report: Report, output: Output = Path("figures/ladder.png"), ranking: RankingName = "means"
) -> None:
    """Draw how uncertainty rises as queries are made worse."""
    _write_from(report, "ladder", output, ranking)


@figures_app.command()
def gallery(
    report: Report,
    output: Output = Path("figures/gallery.png"),
    which: Annotated[
        str, typer.Option(help="Queries: surest, vaguest or confident-but-wrong.")
    ] = "confident-but-wrong",
    ranking: RankingName = "means",
) -> None:
    """Draw queries beside their five nearest pictures.

    Example: surefind figures gallery report --which vaguest
    """
    from surefind.choices import check_choice
    from surefind.reports.figures.selection import SELECTIONS

    check_choice("which", which, tuple(SELECTIONS))
    _write_from(report, which, output, ranking)


@figures_app.command("all")
def draw_all(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the PNG files.")
    ] = Path("figures"),
    report: Annotated[
        Path | None, typer.Option(help="Also draw this folder of surefind evaluate.")
    ] = None,
    ranking: RankingName = "means",
) -> None:
    """Draw everything: the theory, and a report if one is named.

    Example: surefind figures all --report report -o figures
    """
    from surefind.reports.figures.of_report import draw_all as draw_report

    if report:
        result, queries = _read(report, ranking)
        for name, problem in draw_report(result, queries, output, ranking=ranking).items():
            print(f"without {name}: {problem}")
    loss(output / "loss.png")
    scenarios(output / "scenarios.png")
    approximation(output / "approximation.png")


def _write_from(report: Path, name: str, output: Path, ranking: str) -> None:
    """The drawing of that name."""
    from surefind.reports.figures.of_report import DRAWINGS

    result, queries = _read(report, ranking)
    _write(DRAWINGS[name](result, queries, ranking=ranking), output)


def _read(report: Path, ranking: str) -> "tuple[EvalResult, QueryTable]":
    from surefind.choices import check_choice
    from surefind.reports.figures.of_report import read_report

    result, queries = read_report(report)
    check_choice("ranking", ranking, tuple(result.rankings))
    return result, queries


def _write(figure: "Figure", output: Path) -> None:
    from surefind.reports.figures.saving import save

    _make_ready(output)
    save(figure, output)
    print(f"drawn in {output}")


def _make_ready(output: Path) -> None:
    """Find out before the work, not after it, that a file cannot be written."""
    from surefind.files import make_writable
    from surefind.reports.figures.saving import check_ending

    check_ending(output)
    make_writable(output.parent)
