"""surefind search: which images of an index are nearest to these?"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefind.cli.options import EngineOption, IndexArgument, JsonOption, Ranking
from surefind.cli.output import remark
from surefind.errors import InvalidArgument, InvalidFile, SurefindError

if TYPE_CHECKING:
    from surefind.images.decode import ImageSource
    from surefind.search.hits import SearchResult
    from surefind.search.index import Index
    from surefind.upgrade.upgrade import Upgrade

    Answer = tuple[SearchResult, ImageSource | None]  # and the picture that asked

EXIT_CODES = {"match": 0, "unsure": 3, "foreign": 4}  # of several queries the worst counts
AT_ONCE = 32  # images encoded together
VECTORS_AT_ONCE = 1024


def search(
    folder: IndexArgument,
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
        Ranking | None, typer.Option(help="By which distance; the index's own if not given.")
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
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a line per hit as CSV.")] = False,
    pictures: Annotated[
        bool, typer.Option("--preview/--no-preview", help="Small pictures in the terminal.")
    ] = True,
    engine: EngineOption = None,
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
    from surefind.search.index import Index
    from surefind.upgrade.upgrade import Upgrade

    if as_json and as_csv:
        raise InvalidArgument("--json, --csv", expected="one of them", got="both")
    options = {
        "k": k, "ranking": ranking, "where": where or None, "radius": radius, "expand": expand
    }  # fmt: skip
    upgrade = Upgrade.of_index(folder)
    if upgrade is not None and views:
        raise InvalidArgument(
            "--views",
            expected="pictures of one item",
            got="files of vectors",
            fix="fuse them in Python: index.search_views(upgrade.embed(vectors))",
        )
    unread: list[str] = []
    results: list[SearchResult] = []
    with Index.open(folder, engine=engine) as index:
        for warning in index.warnings:
            remark(f"warning: {warning}")
        if upgrade is not None:
            found = _search_vectors(index, upgrade, queries, options, unread)
        else:
            search_images = _search_views if views else _search_images
            found = search_images(index, queries, options, unread)
        found = _noted(found, results)
        if as_json:
            from surefind.cli.rendering import result_as_dict

            told = [result_as_dict(result) for result, _ in found]
            print(json.dumps({"index": str(folder), "results": told}, allow_nan=False))
        elif as_csv:
            _print_csv(found)
        else:
            _print_tables(index, found, pictures=pictures)
            _print_footer(index, results)
    worst = max((EXIT_CODES[result.verdict] for result in results if result.verdict), default=0)
    if unread or worst:
        raise typer.Exit(1 if unread else worst)


def _noted(found: "Iterator[Answer]", results: "list[SearchResult]") -> "Iterator[Answer]":
    """Keep results that pass by without their hits: there may be many queries."""
    for answer in found:
        results.append(replace(answer[0], hits=()))
        yield answer


def _search_images(
    index: "Index", queries: Sequence[str], options: dict[str, Any], unread: list[str]
) -> "Iterator[Answer]":
    """Search with each image; what cannot be read is told and counted."""
    waiting: list[tuple[str, ImageSource]] = []
    for query in _sources(queries, unread):
        waiting.append(query)
        if len(waiting) == AT_ONCE:
            yield from _answers(index, waiting, options, unread)
            waiting = []
    yield from _answers(index, waiting, options, unread)


def _answers(
    index: "Index",
    some: "list[tuple[str, ImageSource]]",
    options: dict[str, Any],
    unread: list[str],
) -> "Iterator[Answer]":
    from surefind.images.decode import ImageRejected

    try:
        results = index.search([source for _, source in some], **options) if some else []
    except ImageRejected as rejected:
        if len(some) == 1:
            _pass_over(f"{some[0][0]}: {rejected.reason}", unread)
        else:
            for one in some:  # which of them it was
                yield from _answers(index, [one], options, unread)
        return
    for (name, source), result in zip(some, results, strict=True):
        yield replace(result, query=name), source


def _search_views(
    index: "Index", queries: Sequence[str], options: dict[str, Any], unread: list[str]
) -> "Iterator[Answer]":
    """Search once, with all images that can be read."""
    from surefind.images.decode import ImageRejected, decode

    readable: list[ImageSource] = []
    for name, source in _sources(queries, unread):
        try:
            decode(source)
            readable.append(source)
        except ImageRejected as rejected:
            _pass_over(f"{name}: {rejected.reason}", unread)
    if readable:
        yield index.search_views(readable, **options), None


def _search_vectors(
    index: "Index",
    upgrade: "Upgrade",
    files: Sequence[str],
    options: dict[str, Any],
    unread: list[str],
) -> "Iterator[Answer]":
    from surefind.upgrade.vectors import read_vectors

    for file in files:
        try:
            given = read_vectors(file)
            embeddings = upgrade.embed(given.values)
        except SurefindError as error:
            _pass_over(f"{file}: {error.problem}", unread)
            continue
        for start in range(0, len(given), VECTORS_AT_ONCE):
            some = slice(start, start + VECTORS_AT_ONCE)
            results = index.search(embeddings[some], **options)
            for name, result in zip(given.ids[some], results, strict=True):
                yield replace(result, query=f"{Path(file).name}: {name}"), None


def _sources(queries: Sequence[str], unread: list[str]) -> "Iterator[tuple[str, ImageSource]]":
    """Yield images with their names: files, those in folders, - for one on stdin."""
    from surefind.datasets.folder import find_images
    from surefind.images.decode import DEFAULT

    for name in queries:
        try:
            is_folder = name != "-" and Path(name).is_dir()
        except OSError:  # too long a name, or not to be looked at: decoding will say so
            is_folder = False
        if name == "-":
            yield name, sys.stdin.buffer.read(DEFAULT.max_bytes + 1)  # one more is refused later
        elif is_folder:
            try:
                yield from ((str(Path(name, path)),) * 2 for path in find_images(Path(name)))
            except InvalidFile as error:
                _pass_over(error.problem, unread)
        else:
            yield name, name


def _pass_over(problem: str, unread: list[str]) -> None:
    from surefind.search.printable import printable

    unread.append(problem)
    print(printable(problem), file=sys.stderr, flush=True)


def _print_csv(found: "Iterator[Answer]") -> None:
    from surefind.cli.rendering import COLUMNS, results_as_csv
    from surefind.search.printable import printable_lines

    show = printable_lines if sys.stdout.isatty() else str
    print(",".join(COLUMNS))
    for result, _ in found:
        print(show(results_as_csv([result])), end="")


def _print_tables(index: "Index", found: "Iterator[Answer]", *, pictures: bool) -> None:
    from rich.console import Console

    from surefind.cli.output import can_show
    from surefind.cli.rendering import hits_table, preview, query_heading

    console = Console()
    pictures = pictures and can_show(console)
    for number, (result, source) in enumerate(found):
        if number:
            console.print()
        shown = preview(source) if pictures and source is not None else None
        console.print(query_heading(result, shown, calibration=index.calibration))
        if shown is not None:
            console.print()
        previews = [preview(hit.path) for hit in result.hits] if pictures else None
        console.print(hits_table(result, previews) if result.hits else "nothing found")


def _print_footer(index: "Index", results: "Sequence[SearchResult]") -> None:
    """Print what the verdicts rest on, or why there are none."""
    from surefind.search.printable import printable
    from surefind.search.sentences import gallery_change, made_with, promised

    calibration = index.calibration
    judged = any(result.verdict is not None for result in results)
    reasons = dict.fromkeys(result.uncalibrated for result in results if result.uncalibrated)
    if judged or reasons:
        print()
    for reason in reasons:
        print(printable(reason))
    if calibration is None or not judged:
        return
    print(printable(f"calibrated: {made_with(calibration)}"))
    if calibration.promise.threshold is not None:
        print(promised(calibration.promise))
    if (change := gallery_change(calibration, len(index))) is not None:
        remark(f"warning: {change}")
