"""What the commands of `surefind figures` share: draw, write, and tell what was drawn."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from surefind.reports.figures.approximation import Simulation
    from surefind.reports.queries import QueryTable
    from surefind.reports.result import EvalResult


def tell(drawn: list[Path], *, as_json: bool, **more: Any) -> None:
    """The files that were drawn."""
    if as_json:
        print(json.dumps({"drawn": [str(path) for path in drawn]} | more))
        return
    for path in drawn:
        print(f"drawn in {path}")


def write(figure: "Figure", output: Path) -> Path:
    from surefind.reports.figures.saving import save

    make_ready(output)
    save(figure, output)
    return output


def make_ready(output: Path) -> None:
    """Find out before the work, not after it, that a file cannot be written."""
    from surefind.files import make_writable
    from surefind.reports.figures.saving import check_ending

    check_ending(output)
    make_writable(output.parent)


def write_from(report: Path, name: str, output: Path, *, ranking: str) -> Path:
    """The drawing of that name."""
    from surefind.reports.figures.of_report import DRAWINGS

    result, queries = read(report, ranking)
    return write(DRAWINGS[name](result, queries, ranking=ranking), output)


def read(report: Path, ranking: str) -> "tuple[EvalResult, QueryTable]":
    from surefind.choices import check_choice
    from surefind.reports.figures.of_report import read_report

    result, queries = read_report(report)
    check_choice("ranking", ranking, tuple(result.rankings))
    return result, queries


def write_loss(output: Path) -> Path:
    from surefind.reports.figures.loss import draw_loss

    return write(draw_loss(), output)


def write_scenarios(output: Path) -> Path:
    from surefind.reports.figures.scenarios import draw_scenarios

    return write(draw_scenarios(), output)


def write_approximation(output: Path, seed: int = 0) -> "list[Simulation]":
    """The simulations, one after the other for each dimension, and their picture."""
    from surefind.cli.progress import bars
    from surefind.reports.figures.approximation import (
        DIMENSIONS,
        approximation_figure,
        simulate,
    )

    make_ready(output)
    with bars() as shown:
        steps = simulate(DIMENSIONS, seed=seed)
        simulations = list(shown.track(steps, total=len(DIMENSIONS), description="simulating"))
    write(approximation_figure(simulations), output)
    return simulations


def print_errors(simulations: "list[Simulation]") -> None:
    """How far each approximation is from the exact law."""
    from rich.console import Console
    from rich.table import Table

    table = Table("D", "clt", "saddlepoint", title="largest error of P(tau < x)")
    for simulation in simulations:
        table.add_row(str(simulation.dim), *(f"{value:.1e}" for value in errors(simulation)))
    Console().print(table)


def errors(simulation: "Simulation") -> tuple[float, float]:
    """Of the normal and of the saddlepoint approximation."""
    return simulation.error("clt"), simulation.error("saddlepoint")
