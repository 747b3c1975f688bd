"""surefind search: which images of an index are nearest to these?"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.cli.voice import remark
from surefind.errors import InvalidArgument

if TYPE_CHECKING:
    from surefind.cli.queries import Answer
    from surefind.search.confidence.calibration import Calibration

EXIT_CODES = {"match": 0, "unsure": 3, "foreign": 4}  # of several queries the worst counts


def search(
    folder: Annotated[Path, typer.Argument(metavar="INDEX", help="A folder of surefind index.")],
    queries: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY",
            help="Image files, folders of images, or - for an image on stdin; "
            "of an index of vectors, files of them.",
        ),
    ],
    k: Annotated[
        int, typer.Option("-k", min=1, help="Hits per query; all if there are fewer.")
    ] = 5,
    ranking: Annotated[
        str | None, typer.Option(help="By expected or mean distance; the index's own if not given.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only such images: label=cat, 'year >= 2020', var<0.1. Repeatable."),
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="Also tell how likely each hit is within this distance.")
    ] = None,
    expand: Annotated[
        int, typer.Option(min=0, help="Neighbours that help the query, each by its certainty.")
    ] = 0,
    views: Annotated[bool, typer.Option("--views", help="All queries show one item.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a line per hit as CSV.")] = False,
    pictures: Annotated[
        bool, typer.Option("--preview/--no-preview", help="Small pictures in the terminal.")
    ] = True,
    engine: Annotated[
        str | None, typer.Option(help="The engine's URL, where it needs a password or has moved.")
    ] = None,
) -> None:
    """Find the nearest images, and say how sure that is once the index is calibrated.

    Exits with 0 for a match, 3 if a query is unsure, 4 if one is foreign; with 1 when a query
    could not be read, the others are answered. Without a calibration there is no verdict.

    Examples:
        surefind search photos.index query.jpg
        surefind search photos.index query.jpg -k 10 --where label=cat --json
        surefind search photos.index queries/ --csv
        surefind search photos.index front.jpg back.jpg --views
    """
    from surefind.cli.queries import Queries
    from surefind.cli.vectors import VectorQueries
    from surefind.search.index import Index
    from surefind.upgrade.upgrade import Upgrade

    if as_json and as_csv:
        raise InvalidArgument(
            "--json, --csv", expected="one of them", got="both", fix="leave one out"
        )
    upgrade = Upgrade.of_index(folder)
    asked = Queries(queries) if upgrade is None else VectorQueries(upgrade, queries)
    told = _Told()
    with Index.open(folder, engine=engine) as index:
        for warning in index.warnings:
            remark(f"warning: {warning}")
        options = {
            "k": k, "ranking": ranking, "where": where or None, "radius": radius, "expand": expand
        }  # fmt: skip
        found = asked.as_views(index, options) if views else asked.one_by_one(index, options)
        found = told.watch(found)
        if as_json:
            _print_json(folder, found)
        elif as_csv:
            _print_csv(found)
        else:
            _print_tables(found, pictures=pictures, calibration=index.calibration)
            _print_footer(told, index.calibration, images=len(index))
    if asked.unread:
        raise typer.Exit(1)
    if told.code:
        raise typer.Exit(told.code)


class _Told:
    """What answers that pass by come to."""

    def __init__(self) -> None:
        self.code, self.judged = 0, False
        self.reasons: dict[str, None] = {}  # why some have no confidence, each once

    def watch(self, found: "Iterator[Answer]") -> "Iterator[Answer]":
        for answer in found:
            verdict, reason = answer.result.verdict, answer.result.uncalibrated
            if verdict is not None:
                self.judged = True
                self.code = max(self.code, EXIT_CODES[verdict])
            if reason is not None:
                self.reasons[reason] = None
            yield answer


def _print_json(folder: Path, found: "Iterator[Answer]") -> None:
    from surefind.search.tables import result_as_dict

    results = [result_as_dict(answer.result) for answer in found]
    print(json.dumps({"index": str(folder), "results": results}, allow_nan=False))


def _print_csv(found: "Iterator[Answer]") -> None:
    from surefind.search.printable import printable_lines
    from surefind.search.tables import csv_header, results_as_csv

    show = printable_lines if sys.stdout.isatty() else str
    print(csv_header(), end="")
    for answer in found:
        print(show(results_as_csv([answer.result])), end="")


def _print_tables(
    found: "Iterator[Answer]", *, pictures: bool, calibration: "Calibration | None"
) -> None:
    from rich.console import Console

    from surefind.cli.preview import can_show, preview
    from surefind.search.tables import hits_table, query_heading

    console = Console()
    pictures = pictures and can_show(console)
    for number, (result, source) in enumerate(found):
        if number:
            console.print()
        shown = preview(source) if pictures and source is not None else None
        console.print(query_heading(result, shown, calibration=calibration))
        if shown is not None:
            console.print()
        previews = [preview(hit.path) for hit in result.hits] if pictures else None
        console.print(hits_table(result, previews) if result.hits else "nothing found")


def _print_footer(told: _Told, calibration: "Calibration | None", *, images: int) -> None:
    """What the verdicts rest on, or why there are none."""
    from surefind.search.printable import printable
    from surefind.search.sentences import gallery_change, made_with, promised

    if told.judged or told.reasons:
        print()
    for reason in told.reasons:
        print(printable(reason))
    if calibration is None or not told.judged:
        return
    print(printable(f"calibrated: {made_with(calibration)}"))
    if calibration.promise.threshold is not None:
        print(promised(calibration.promise))
    if (change := gallery_change(calibration, images)) is not None:
        remark(f"warning: {change}")
