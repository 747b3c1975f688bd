"""surefind evaluate: how good is a model, and how honest its uncertainty?"""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from surefind.errors import InvalidArgument


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model folder of surefind train.")],
    data: Annotated[str, typer.Argument(help="A folder, a CSV, NAME:FOLDER, or 'glyphs'.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The report folder to make.")],
    ood: Annotated[
        str | None,
        typer.Option(
            help="Images that do not belong to the data, named like it: the test split of data "
            "that has splits (cars196: classes 99-196), else all of it."
        ),
    ] = None,
    part: Annotated[str, typer.Option(help="test, val, train, or all of the data.")] = "test",
    ks: Annotated[str, typer.Option("--k", help="Neighbours to judge, e.g. 1,5,10.")] = "1,5,10",
    radius: Annotated[float, typer.Option(help="Metres within which places match.")] = 25.0,
    passes: Annotated[
        int | None, typer.Option("--mc-passes", help="Uncertainty by dropout in so many passes.")
    ] = None,
    ladder: Annotated[
        int, typer.Option(help="Queries to corrupt step by step; 0 leaves this out.")
    ] = 200,
    rows: Annotated[str, typer.Option(help="One row per query, as csv or parquet.")] = "csv",
    seed: Annotated[int, typer.Option(help="Of resampling and corruption.")] = 0,
    runtime: Annotated[
        str, typer.Option(help="What encodes: torch, or its export: onnx or onnx-int8.")
    ] = "torch",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Measure retrieval, calibration, selective risk and out-of-distribution, with intervals.

    Writes results.json, queries.csv, figures and report.html. Embeddings are kept in the report
    folder: a second run only measures.

    Examples:
        surefind evaluate model glyphs -o report
        surefind evaluate model photos/ -o report --part all --ood other-photos/
        surefind evaluate model cub200:data/CUB_200_2011 -o report --k 1,2,4,8
    """
    from surefind.cli.progress import stages
    from surefind.reports.evaluate import Request
    from surefind.reports.evaluate import evaluate as run
    from surefind.reports.folder import ReportFolder
    from surefind.reports.terminal import print_result

    folder = ReportFolder(output, table=rows)
    folder.make()
    request = Request(
        model=model,
        data=data,
        part=part,
        foreign=ood,
        passes=passes,
        ks=_numbers(ks),
        radius=radius,
        ladder=ladder,
        seed=seed,
        runtime=runtime,
        command=shlex.join(["surefind", *sys.argv[1:]]),
    )
    with stages() as tell:
        evaluation = run(request, kept_in=folder.embeddings, tell=tell)
        tell("writing the report", 0, 1)
        folder.write(evaluation)
    if as_json:
        print(json.dumps(evaluation.result.as_dict()))
        return
    print_result(evaluation.result)
    print(f"the whole report: {folder.page}")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError as error:
        raise InvalidArgument(
            "--k", expected="numbers with commas between", got=repr(text), fix="e.g. --k 1,5,10"
        ) from error
