"""surefind evaluate: measure a model and write a report."""

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from surefind.cli.options import (
    DataArgument,
    JsonOption,
    ModelArgument,
    OodOption,
    RuntimeOption,
    SplitOption,
)
from surefind.cli.output import stages
from surefind.errors import InvalidArgument

if TYPE_CHECKING:
    from surefind.reports.result import EvalResult
    from surefind.reports.tables import Value


def evaluate(
    model: ModelArgument,
    data: DataArgument,
    output: Annotated[Path, Option("--output", "-o", help="Folder for the report.")],
    ood: OodOption = None,
    split: SplitOption = "test",
    ks: Annotated[str, Option("--k", help="Numbers of neighbours, for R@k and mAP@k.")] = "1,5,10",
    radius: Annotated[float, Option(help="Metres within which images of places match.")] = 25.0,
    passes: Annotated[int | None, Option("--mc-passes", help="Passes of MC dropout.")] = None,
    ladder: Annotated[int, Option(help="Queries to corrupt step by step; 0: none.")] = 200,
    seed: Annotated[int, Option(help="Seed of resampling and corruption.")] = 0,
    runtime: RuntimeOption = "torch",
    as_json: JsonOption = False,
) -> None:
    """Measure retrieval, calibration, selective risk and OOD detection, with intervals.

    Writes results.json, queries.csv, figures and report.html. Embeddings are cached in the report
    folder, so that a second run is fast.

    Examples:
        surefind evaluate model glyphs -o report
        surefind evaluate model photos/ -o report --split all --ood other-photos/
        surefind evaluate model cub200:data/CUB_200_2011 -o report --k 1,2,4,8
    """
    from surefind.reports.evaluate import Request
    from surefind.reports.report import ReportFolder, evaluate_into

    try:
        numbers = tuple(sorted({int(k) for k in ks.split(",")}))
    except ValueError as error:
        raise InvalidArgument("--k", expected="numbers such as 1,5,10", got=repr(ks)) from error
    request = Request(
        model=model,
        data=data,
        split=split,
        foreign=ood,
        passes=passes,
        ks=numbers,
        radius=radius,
        ladder=ladder,
        seed=seed,
        runtime=runtime,
        command=shlex.join(["surefind", *sys.argv[1:]]),
    )
    with stages() as progress:
        result = evaluate_into(request, output=output, progress=progress)
    if as_json:
        print(json.dumps(asdict(result)))
        return
    _print(result)
    print(f"report: {ReportFolder(output).page}")


def _print(result: "EvalResult") -> None:
    """Print retrieval for every ranking and all uncertainty signals, with 95 % intervals."""
    from rich.console import Console

    from surefind.cli.rendering import plain_table
    from surefind.reports.signals import ranking_name, signal_name
    from surefind.reports.tables import retrieval_values, signal_values

    console, about, rankings = Console(), result.about, result.rankings
    console.print(f"{about.data_name} ({about.split}): {about.protocol}", highlight=False)
    for exclusion in result.exclusions:
        console.print(f"left out: {exclusion.count:,} images, {exclusion.reason}", markup=False)
    over = "classes" if about.resampled_classes else "queries"
    retrieval = plain_table(f"95 % intervals over {over}", *map(ranking_name, rankings))
    values = [
        retrieval_values(ranking)
        | {f"ECE@{k}, {name}": e for name, by_k in ranking.ece.items() for k, e in by_k.items()}
        for ranking in rankings.values()
    ]
    for name in values[0]:
        retrieval.add_row(name, *(_interval(each[name], half=False) for each in values))
    signals = plain_table("signal", "AUROC wrong", "AURC", "ECE, fitted", "AUROC foreign")
    for name, signal in rankings["means"].signals.items():
        shown = (signal_values(signal)[title] for title in ("AUROC", "AURC", "ECE", "OOD AUROC"))
        signals.add_row(signal_name(name), *(_interval(value, half=True) for value in shown))
    console.print("", retrieval, "", signals, "", sep="\n")
    if about.bars_auroc is not None:
        alone = "baseline: black bars alone separate foreign images with AUROC"
        console.print(f"{alone} {about.bars_auroc:.3f}")


def _interval(value: "Value", *, half: bool) -> str:
    """Format a value with its interval, or with half the width of it."""
    if value is None or isinstance(value, float):
        return "-"
    if half:
        widest = max(value.high - value.value, value.value - value.low)
        return f"{value.value:.3f}[dim]±{widest:.3f}[/]"
    return f"{value.value:.3f} [dim]{value.low:.3f} to {value.high:.3f}[/]"
