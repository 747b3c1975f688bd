"""surefind demo: everything once, on built-in data."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
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
HOW_TO_READ = (
    "No encoder was trained with these classes; the indexes are calibrated with their own images, "
    "and the queries are other images. AUROC of wrong answers: 0.5 is random, 1 is perfect. ECE: "
    "calibration error, debiased, and that of a perfect model with as many queries. Answered: the "
    "largest share of queries that could be answered with the requested precision."
)


def demo(
    output: Annotated[Path, Option("--output", "-o", help="The folder to make, or one of an earlier demo.")] = Path(
        "demo"
    ),
    serve: Annotated[bool, Option("--serve", help="Serve the page until Ctrl-C.")] = False,
    port: PortOption = 8000,
    seed: Annotated[int, Option(min=0, help="Of training and of every draw.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """See everything once, without data of your own: in about two minutes on two cores.

    Draws glyphs, trains a Bayesian encoder and a triplet baseline, indexes, calibrates, writes a
    report, asks three queries, and evaluates both indexes as surefind evaluate does. Interrupt it
    at any time: the same command goes on.

    Examples:
        surefind demo
        surefind demo -o tour --serve
    """
    from surefind.demo import run_demo

    installed = all(map(find_spec, PACKAGES))
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
def _watched(title: str, seconds: float) -> Iterator[Progressed]:
    """Show a bar that is removed at the end, and the time left; without a terminal, a line at the start."""
    with bars() as bar:
        bar.live.transient = True
        title += f", about {timedelta(seconds=round(seconds))} left in all"
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
    """Print the queries, and the evaluation of both indexes as `surefind evaluate` does."""
    from rich.console import Console
    from rich.text import Text

    from surefind.cli.evaluate import metric_table
    from surefind.cli.rendering import print_result
    from surefind.reports.tables import index_signal_table

    console = Console()
    for question in result.questions:
        console.print(Text.assemble((question.kind, "bold"), f": {question.about}"))
        print_result(console, question.result, result.calibration)
        console.print()
    for encoder, found in result.evaluations.items():
        of = f"{found.queries:,} queries of {found.classes} classes, {found.images:,} images"
        table = metric_table(index_signal_table(found), title=f"{encoder}: {of}")
        console.print(table, *found.sentences, "", sep="\n", highlight=False)
    console.print(HOW_TO_READ, "", sep="\n", highlight=False)
