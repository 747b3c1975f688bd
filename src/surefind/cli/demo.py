"""surefind demo: everything once, on built-in data."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.cli.options import JsonOption
from surefind.cli.output import bars, line, remark
from surefind.errors import SurefindError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from surefind.demo import DemoResult
    from surefind.demo.queries import Question
    from surefind.demo.setup import StageDone

PACKAGES = ("fastapi", "uvicorn", "prometheus_client")  # of the service
INSTALL = "pip install 'surefind[serve]'"


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to make, or one of an earlier demo.")
    ] = Path("demo"),
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page at the end; Ctrl-C ends it.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the page; 0: any that is free.")
    ] = 8000,
    seed: Annotated[int, typer.Option(min=0, help="Of training and of every draw.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """See everything once, without data of your own: in about two minutes on two cores.

    Draws glyphs, trains a Bayesian encoder and a triplet baseline, indexes, calibrates, writes a
    report, asks three queries, and compares who knows when the first hit is wrong. Stop it
    whenever you like: the same command goes on.
    Example: surefind demo
        surefind demo -o tour --serve
    """
    from surefind.demo import run_demo

    if serve and not _is_installed():  # before the work, not after it
        raise SurefindError("the service is not installed", fix=f"{INSTALL}, or leave out --serve")
    result = run_demo(output, seed=seed, watch=_watched, ended=_tell)
    if as_json:
        print(json.dumps(result.as_dict(), allow_nan=False), flush=True)
    else:
        _print(result, serving=serve)
    if serve:
        from surefind.cli.serve import serve as serve_index

        folder = result.folder
        serve_index(folder.index, port=port, samples=folder.queries, report=folder.report)


@contextmanager
def _watched(title: str) -> "Iterator[Callable[[str, int, int], None]]":
    """A bar on a terminal, which its last line replaces; elsewhere a line when it begins."""
    with bars() as bar:
        bar.live.transient = True
        line(bar, f"{title} ...")
        task = bar.add_task(title, total=None)

        def tell(part: str, done: int, total: int) -> None:
            what = f"{title}: {part}" if part else title
            bar.update(task, description=what, completed=done, total=total)

        yield tell


def _tell(stage: "StageDone") -> None:
    again = ", from an earlier run" if stage.reused else ""
    remark(f"{stage.title}: {stage.figure} ({stage.seconds:.1f} s{again})")


def _is_installed() -> bool:
    return all(find_spec(package) is not None for package in PACKAGES)


def _print(result: "DemoResult", *, serving: bool) -> None:
    """The queries, the table, how to read it, and what to do next."""
    from rich.console import Console

    from surefind.demo.run import TRY_YOURS

    console = Console()
    for question in result.questions:
        _print_question(console, question, result)
        console.print()
    console.print(_table(result))
    console.print()
    for sentence in result.reading:
        console.print(sentence, highlight=False)
    print()
    if not _is_installed():
        print(f"For the page:     {INSTALL}")
    if not serving:
        print(f"Open the page:    {result.open_page}")
    print(f"Your own folder:  {TRY_YOURS}", flush=True)


def _print_question(console: "Console", question: "Question", result: "DemoResult") -> None:
    from rich.text import Text

    from surefind.cli.output import can_show
    from surefind.cli.rendering import hits_table, preview, query_heading

    found, pictures = question.result, can_show(console)
    console.print(Text.assemble((question.kind, "bold"), f": {question.about}"))
    shown = preview(question.path) if pictures else None
    console.print(query_heading(found, shown, calibration=result.calibration))
    console.print(
        hits_table(found, [preview(hit.path) for hit in found.hits] if pictures else None)
    )


def _table(result: "DemoResult") -> "Table":
    """A line for each quantity, below the name of its encoder."""
    from rich import box
    from rich.table import Table

    table = Table(
        title="Who knows when the first hit is wrong?",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("")
    for name in (
        "right first\nhits (R@1)",
        "knows when\nwrong (AUROC)",
        "calibration\nerror (perfect)",
        f"answered\nat {100 * result.precision:g} %",
    ):
        table.add_column(name, justify="right", no_wrap=True)
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
    return table
