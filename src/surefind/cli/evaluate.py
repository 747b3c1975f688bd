"""surefind evaluate: measure a model, or an index with labelled queries, and write a report."""

import json
import shlex
import sys
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Exit, Option

import surefind as sf
from surefind.cli.options import QUERIES, EngineOption, JsonOption, OodOption, Runtime, Split
from surefind.cli.output import note, stages

if TYPE_CHECKING:
    from rich.table import Table

    from surefind.reports.index_evaluation import IndexEvaluation
    from surefind.reports.result import EvalResult
    from surefind.reports.tables import MetricTable

NOT_KEPT = 3  # exit code


def evaluate(
    model: Annotated[Path, Argument(help="A model folder, or an index folder.")],
    data: Annotated[str, Argument(help=f"Labelled images: {QUERIES}.")],
    output: Annotated[Path | None, Option("--output", "-o", help="Folder for the report; needed for a model.")] = None,
    ood: OodOption = None,
    split: Annotated[Split | None, Option(help="Split of the data. Default: test; for an index, all.")] = None,
    ks: Annotated[str | None, Option("--k", help="Numbers of neighbours, for R@k and mAP@k. Default: 1,5,10.")] = None,
    radius: Annotated[float | None, Option(help="Metres within which images of places match. Default: 25.")] = None,
    passes: Annotated[int | None, Option("--mc-passes", help="Passes of MC dropout.")] = None,
    ladder: Annotated[int | None, Option(min=1, help="Also search with this many corrupted queries (slow).")] = None,
    seed: Annotated[int, Option(help="Seed of resampling and corruption.")] = 0,
    runtime: Annotated[Runtime | None, Option(help="Runtime of the model. Default: torch, or of the index.")] = None,
    label: Annotated[str | None, Option(help="Of an index: field of the labels. Default: as calibrated.")] = None,
    as_json: JsonOption = False,
    engine: EngineOption = None,
) -> None:
    """Measure retrieval, calibration, selective risk and OOD detection, with intervals.

    Writes results.json, queries.csv, figures and report.html. Embeddings are cached in the report
    folder, so that a second run is fast.

    Of an index: verdicts, labels and confidence for labelled queries, beside the guarantee and
    other signals. Exit code 3 if fewer matches are right than guaranteed.

    Examples:
        surefind evaluate model glyphs -o report
        surefind evaluate photos.index labelled/
        surefind evaluate vectors.index asked.npz -o report --json
        surefind evaluate model photos/ -o report --split all --ood other-photos/
        surefind evaluate model cub200:data/CUB_200_2011 -o report --k 1,2,4,8
    """
    from surefind.reports.evaluate import Request
    from surefind.reports.report import ReportFolder, evaluate_into
    from surefind.search.folder import IndexFolder

    of_index = IndexFolder(model).exists()
    of_model_only = {
        "--ood": ood, "--k": ks, "--radius": radius, "--mc-passes": passes, "--ladder": ladder,
    }  # fmt: skip
    for option, given in (of_model_only if of_index else {"--label": label, "--engine": engine}).items():
        if given is not None:
            expected = "a model, not an index" if of_index else "an index, not a model"
            raise sf.InvalidArgument(option, expected=expected, got=str(model))
    if of_index:
        found = _evaluate_index(model, data, output, split, label, engine, runtime, seed)
        if as_json:
            print(json.dumps(found.as_dict()))
        else:
            _print_index(found)
            if output is not None:
                print(f"\nreport: {ReportFolder(output).page}")
        if found.kept is False:
            raise Exit(NOT_KEPT)
        return
    if output is None:
        raise BadParameter("a folder for the report is needed", param_hint="--output / -o")
    try:
        numbers = tuple(sorted({int(k) for k in (ks or "1,5,10").split(",")}))
    except ValueError as error:
        raise sf.InvalidArgument("--k", expected="numbers such as 1,5,10", got=repr(ks)) from error
    request = Request(
        model=model,
        data=data,
        split=split or "test",
        foreign=ood,
        passes=passes,
        ks=numbers,
        radius=25.0 if radius is None else radius,
        ladder=ladder or 0,
        seed=seed,
        runtime=runtime or "torch",
        command=shlex.join(["surefind", *sys.argv[1:]]),
    )
    with stages() as progress:
        result = evaluate_into(request, output=output, progress=progress)
    if as_json:
        print(json.dumps(asdict(result)))
        return
    _print(result)
    print(f"report: {ReportFolder(output).page}")


def _evaluate_index(
    folder: Path,
    data: str,
    output: Path | None,
    split: Split | None,
    label: str | None,
    engine: str | None,
    runtime: Runtime | None,
    seed: int,
) -> "IndexEvaluation":
    """Evaluate an index, and write the report."""
    from surefind.cli.calibrate import read_queries
    from surefind.reports.index_evaluation import evaluate_index
    from surefind.reports.report import write_index_report
    from surefind.search.folder import encoder_of
    from surefind.storage import make_writable

    if output is not None:  # checked before the work
        make_writable(output)
    encoder = None if runtime is None else encoder_of(folder, runtime)
    with stages() as progress, sf.Index.open(folder, engine=engine, encoder=encoder) as index:
        for warning in index.warnings:
            note(f"warning: {warning}")
        if split is not None and not index.has_model:
            got = f"{folder}, an index of vectors"
            raise sf.InvalidArgument("--split", expected="an index of images", got=got)
        labelled, labels = read_queries(index, data, split or "all", label)
        command = shlex.join(["surefind", *sys.argv[1:]])
        found = evaluate_index(
            index, labelled, labels=labels, label=label, name=data, command=command, seed=seed, progress=progress
        )
    if output is not None:
        write_index_report(output, found)
    return found


def metric_table(table: "MetricTable", *, title: str | None = None) -> "Table":
    """Return a table of metrics for the terminal, with half of each interval's width."""
    from surefind.cli.rendering import plain_table

    titles = (fill(column.title, 10) for column in table.columns)
    shown = plain_table(table.first, *titles, title=title or table.caption)
    for group, rows in groupby(table.rows, key=lambda row: str(row["group"])):
        if group:
            shown.add_row(group, style="dim")
        for row in rows:
            cells = (f"{cell['text']}[dim]{cell['half']}[/]" for cell in row["cells"])
            shown.add_row(f"  {row['name']}" if group else row["name"], *cells)
    return shown


def _print_index(found: "IndexEvaluation") -> None:
    """Print verdicts and signals of an index, and what they mean."""
    from rich.console import Console

    from surefind.confidence.explain import measured, percent
    from surefind.reports.tables import index_signal_table, verdict_table
    from surefind.text import printable

    console = Console()
    of = f"{found.queries:,} queries of {found.classes:,} classes ({found.data})"
    print(printable(f"{found.index}, {found.images:,} images: {of}"))
    print(printable(f"calibrated: {found.calibrated}"))
    for exclusion in found.exclusions:
        print(printable(f"left out: {exclusion.count:,} queries, {exclusion.reason}"))
    for remark in found.remarks:
        note(f"warning: {remark}")

    tables = map(metric_table, (verdict_table(found), index_signal_table(found)))
    console.print("", next(tables), "", next(tables), sep="\n")
    what, first = "labels", found.label_accuracy
    if first is None:
        what, first = "hits", found.first_right
    of_first = f"{measured(first)} of the {'labels' if what == 'labels' else 'first hits'}"
    print(f"\n{measured(found.nearest_right)} of the nearest images are right (R@1), {of_first}.")
    if found.set_coverage is not None:
        print(
            f"The {what} to show ({found.set_size:.1f} on average) contain the right one for "
            f"{measured(found.set_coverage)} of queries (target {percent(found.set_target)})."
        )
    for sentence in found.sentences:
        print(sentence)


def _print(result: "EvalResult") -> None:
    """Print retrieval for every ranking and all uncertainty signals, with 95 % intervals."""
    from rich.console import Console

    from surefind.cli.rendering import plain_table
    from surefind.reports.signals import ranking_name
    from surefind.reports.tables import signal_summary

    console, about, rankings = Console(), result.about, result.rankings
    console.print(f"{about.data_name} ({about.split}): {about.protocol}", highlight=False)
    for exclusion in result.exclusions:
        console.print(f"left out: {exclusion.count:,} images, {exclusion.reason}", markup=False)
    over = "classes" if about.resampled_classes else "queries"
    retrieval = plain_table(f"95 % intervals over {over}", *map(ranking_name, rankings))
    values = [
        ranking.retrieval | {f"{k}, {name}": ece for name, by_k in ranking.ece.items() for k, ece in by_k.items()}
        for ranking in rankings.values()
    ]
    for name in values[0]:
        cells = (f"{e.value:.3f} [dim]{e.low:.3f} to {e.high:.3f}[/]" for e in (v[name] for v in values))
        retrieval.add_row(name, *cells)
    console.print("", retrieval, "", metric_table(signal_summary(rankings["means"])), "", sep="\n")
    if about.bars_auroc is not None:
        alone = "baseline: black bars alone separate foreign images with AUROC"
        console.print(f"{alone} {about.bars_auroc:.3f}")
