"""surefind demo: everything once, on built-in data."""

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
    from surefind.demo import DemoResult
    from surefind.demo.run import Stage

PACKAGES = ("fastapi", "uvicorn", "prometheus_client")  # of the service
INSTALL = "pip install 'surefind[serve]'"


def demo(
    output: Annotated[
        Path, Option("--output", "-o", help="The folder to make, or one of an earlier demo.")
    ] = Path("demo"),
    serve: Annotated[bool, Option("--serve", help="Serve the page until Ctrl-C.")] = False,
    port: PortOption = 8000,
    seed: Annotated[int, Option(min=0, help="Of training and of every draw.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """See everything once, without data of your own: in about two minutes on two cores.

    Draws glyphs, trains a Bayesian encoder and a triplet baseline, indexes, calibrates, writes a
    report, asks three queries, and compares who knows when the first hit is wrong. Interrupt it at
    any time: the same command goes on.

    Examples:
        surefind demo
        surefind demo -o tour --serve
    """
    from surefind.demo import run_demo

    installed = all(find_spec(package) is not None for package in PACKAGES)
    if serve and not installed:  # before the work, not after it
        raise SurefindError("the service is not installed", fix=f"{INSTALL}, or leave out --serve")
    result = run_demo(output, seed=seed, watch=_watched, ended=_print_stage)
    if as_json:
        print(json.dumps(result.as_dict(), allow_nan=False), flush=True)
    else:
        _print(result)
        if not installed:
            print(f"For the page:     {INSTALL}")
        if not serve:
            print(f"Open the page:    {result.open_page}")
        print("Your own folder:  surefind train photos/ -o model", flush=True)
    if serve:
        from surefind.cli.serve import serve as serve_index

        made = result.folder
        serve_index(made / "index", port=port, samples=made / "queries", report=made / "report")


@contextmanager
def _watched(title: str) -> Iterator[Progressed]:
    """Show a bar that is removed at the end; without a terminal, a line at the start."""
    with bars() as bar:
        bar.live.transient = True
        line(bar, f"{title} ...")
        task = bar.add_task(title, total=None)

        def progress(part: str, done: int, total: int) -> None:
            what = f"{title}: {part}" if part else title
            bar.update(task, description=what, completed=done, total=total)

        yield progress


def _print_stage(stage: "Stage") -> None:
    reused = ", from an earlier run" if stage.reused else ""
    note(f"{stage.title}: {stage.figure} ({stage.seconds:.1f} s{reused})")


def _print(result: "DemoResult") -> None:
    """Print the queries, a line for each quantity by its encoder, and how to read them."""
    from rich.console import Console
    from rich.text import Text

    from surefind.cli.rendering import plain_table, print_result

    console = Console()
    for question in result.questions:
        console.print(Text.assemble((question.kind, "bold"), f": {question.about}"))
        print_result(console, question.result, question.path, calibration=result.calibration)
        console.print()
    table = plain_table(
        "",
        "right first\nhits (R@1)",
        "knows when\nwrong (AUROC)",
        "calibration\nerror (perfect)",
        f"answered\nat {100 * result.calibration.guarantee.precision:g} %",
        title="Who knows when the first hit is wrong?",
    )
    for encoder, its in groupby(result.rows, key=lambda row: row.encoder):
        table.add_row(encoder)
        for row in its:
            table.add_row(
                f"  {row.told_by}",
                f"{100 * row.recall:.1f} %",
                f"{row.auroc:.3f}",
                "-" if row.ece is None else f"{row.ece:.3f} ({row.floor:.3f})",
                f"{100 * row.answered:.0f} %",
            )
    console.print(table)
    console.print()
    for sentence in result.reading:
        console.print(sentence, highlight=False)
    print()
