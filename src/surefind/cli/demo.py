"""surefind demo: a tour on built-in data."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from surefind.cli.options import JsonOption, PortOption
from surefind.cli.output import Progressed, bars, line, note
from surefind.errors import SurefindError

if TYPE_CHECKING:
    from surefind.demo import DemoResult, Stage

PACKAGES = ("fastapi", "uvicorn", "prometheus_client")  # of the extra `serve`
INSTALL = "pip install 'surefind[serve]'"


def demo(
    output: Annotated[
        Path, Option("--output", "-o", help="A new folder, or that of an earlier demo to continue.")
    ] = Path("demo"),
    serve: Annotated[bool, Option("--serve", help="Then serve the page until Ctrl-C.")] = False,
    port: PortOption = 8000,
    seed: Annotated[int, Option(min=0, help="Seed of training and sampling.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Two-minute demo on built-in data; no GPU, no downloads.

    Draws images of letters, trains a Bayesian encoder and a triplet baseline, indexes, calibrates,
    writes a report, searches three queries, and compares which signal detects a wrong first hit.
    Interrupt it at any time: the same command continues.

    Examples:
        surefind demo
        surefind demo -o tour --serve
    """
    from surefind.demo import run_demo

    installed = all(find_spec(package) is not None for package in PACKAGES)
    if serve and not installed:  # checked before the work
        raise SurefindError("the service is not installed", fix=f"{INSTALL}, or omit --serve")
    result = run_demo(output, seed=seed, watch=_watched)
    if as_json:
        print(json.dumps(result.as_dict(), allow_nan=False), flush=True)
    else:
        _print(result)
        if not installed:
            print(f"For the page:     {INSTALL}")
        if not serve:
            print(f"Open the page:    {result.serve_command}")
        print("Your own photos:  surefind train photos/ -o model", flush=True)
    if serve:
        from surefind.cli.serve import serve as serve_index

        made = result.folder
        serve_index(made / "index", port=port, samples=made / "queries", report=made / "report")


@contextmanager
def _watched(stage: "Stage") -> Iterator[Progressed]:
    """Show a bar (without a terminal, a line), and the summary at the end."""
    with bars() as bar:
        bar.live.transient = True
        line(bar, f"{stage.title} ...")
        task = bar.add_task(stage.title, total=None)

        def progress(part: str, done: int, total: int) -> None:
            what = f"{stage.title}: {part}" if part else stage.title
            bar.update(task, description=what, completed=done, total=total)

        yield progress
    again = ", from an earlier run" if stage.reused else ""
    note(f"{stage.title}: {stage.summary} ({stage.seconds:.1f} s{again})")


def _print(result: "DemoResult") -> None:
    """Print the queries, the table, and how to read it."""
    from rich.console import Console
    from rich.text import Text

    from surefind.cli.rendering import plain_table, print_result
    from surefind.demo import TARGETS
    from surefind.search.sentences import digits

    console = Console()
    for query in result.queries:
        console.print(Text.assemble((query.kind, "bold"), f": {query.about}"))
        print_result(console, query.result, query.path, calibration=result.calibration)
        console.print()
    table = plain_table(
        "",
        "right first\nhits (R@1)",
        "detects wrong\nhits (AUROC)",
        "calibration\nerror (perfect)",
        f"answered\nat {100 * TARGETS.precision:g} %",
        title="Which signal detects a wrong first hit?",
    )
    for encoder, rows in groupby(result.table, key=lambda row: row["encoder"]):
        table.add_row(encoder)
        for row in rows:
            table.add_row(
                f"  {row['signal']}",
                f"{100 * row['recall']:.1f} %",
                digits(row["auroc"]),
                "-" if row["ece"] is None else f"{row['ece']:.3f} ({row['floor']:.3f})",
                "-" if row["answered"] is None else f"{100 * row['answered']:.0f} %",
            )
    console.print(table)
    console.print(
        f"\n{result.calibration.origin.queries:,} queries of classes that no encoder was trained "
        "on, each searched among the others; probabilities are cross-fitted over classes. AUROC: "
        "0.5 is chance, 1 detects every wrong first hit. Calibration error: debiased; in brackets "
        "that of a perfectly calibrated model. Answered: share of queries called a match, at a "
        f"guaranteed precision of {100 * TARGETS.precision:g} %.\n",
        highlight=False,
    )
