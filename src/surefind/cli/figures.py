"""surefind figures: the paper's figures from our code."""

from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

import typer

from surefind.errors import InvalidFile

figures_app = typer.Typer(help="The paper's figures from our code.", no_args_is_help=True)


@figures_app.callback()
def figures() -> None:
    """Draw the paper's figures from our code."""


@figures_app.command()
def approximation(
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG, SVG or PDF file.")] = Path(
        "figures/approximation.png"
    ),
    seed: Annotated[int, typer.Option(help="Of the random triplets.")] = 0,
) -> None:
    """Draw how near the normal and the saddlepoint approximation are to the exact law of tau.

    Example: surefind figures approximation -o approximation.png
    """
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from surefind.reports.figures.approximation import DIMENSIONS, draw_approximation, simulate

    if output.suffix not in (".png", ".svg", ".pdf"):
        raise InvalidFile(f"cannot draw {output}", fix="name a .png, .svg or .pdf file")
    _make_writable(output.parent)
    console = Console()
    steps = track(
        simulate(seed=seed), "simulating", total=len(DIMENSIONS), console=console, transient=True
    )
    simulations = list(steps)
    table = Table("D", "clt", "saddlepoint", title="largest error of P(tau < x)")
    for simulation in simulations:
        errors = (f"{simulation.error(method):.1e}" for method in ("clt", "saddlepoint"))
        table.add_row(str(simulation.dim), *errors)
    console.print(table)
    try:
        draw_approximation(simulations, output)
    except OSError as error:
        raise _cannot_write(output, error) from error
    console.print(f"drawn in {output}")


def _make_writable(folder: Path) -> None:
    """Before the work, not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _cannot_write(folder, error) from error


def _cannot_write(path: Path, error: OSError) -> InvalidFile:
    return InvalidFile(f"cannot write {path}: {error.strerror}", fix="choose a writable folder")
