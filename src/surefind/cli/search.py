"""surefind search: find the nearest images of an index."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

import surefind as sf
from surefind.cli.options import EngineOption, HitRanking, IndexArgument, JsonOption
from surefind.cli.output import note

if TYPE_CHECKING:
    from surefind.engines.base import Queries
    from surefind.images.decode import ImageSource

EXIT_CODES = {None: 0, "match": 0, "unsure": 3, "no_match": 4}  # the highest of all queries counts
NOTHING_FOUND = 5
BATCH_IMAGES, BATCH_VECTORS = 32, 1024


def search(
    folder: IndexArgument,
    queries: Annotated[list[str], Argument(metavar="QUERY", help="Images, folders, - for stdin; or files of vectors.")],
    k: Annotated[int, Option("-k", min=1, help="Number of hits per query.")] = 5,
    ranking: Annotated[HitRanking | None, Option(help="Order of hits; default: confidence if calibrated.")] = None,
    where: Annotated[list[str] | None, Option(help="Filter: label=cat, 'year >= 2020', var<0.1. Repeatable.")] = None,
    radius: Annotated[float | None, Option(help="Show P(squared distance below this), not calibrated.")] = None,
    expand: Annotated[int, Option(min=0, help="Query expansion: search again with the N nearest images.")] = 0,
    kind: Annotated[str, Option(help="Kind of the queries if they are not like the index, such as text.")] = "",
    views: Annotated[bool, Option("--views", help="All queries are pictures of one item: fuse them into one.")] = False,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, Option("--csv", help="Print a line per hit as CSV.")] = False,
    engine: EngineOption = None,
) -> None:
    """Find images with their confidence, and a verdict: match, unsure or no_match.

    An index with labels answers with a label too. Exit code 0 for a match, 3 if a query is unsure,
    4 if one is not in the catalogue (no_match), 5 if nothing was found for one, as a filter left
    no image; 1 if a query could not be read (the others are answered). Without a calibration: 0
    or 5.

    Examples:
        surefind search photos.index query.jpg
        surefind search photos.index query.jpg -k 10 --where label=cat --json
        surefind search photos.index queries/ --csv
        surefind search photos.index front.jpg back.jpg --views
    """
    from rich.console import Console

    from surefind.cli.rendering import COLUMNS, finite, print_result, result_as_csv
    from surefind.text import printable_lines

    if as_json and as_csv:
        raise sf.InvalidArgument("--json, --csv", expected="one of them", got="both")
    options: dict[str, Any] = {
        "k": k, "ranking": ranking, "where": where or None, "radius": radius, "expand": expand,
        "kind": kind,
    }  # fmt: skip
    unread: list[str] = []
    results: list[sf.SearchResult] = []  # with one hit
    facts: list[dict[str, Any]] = []  # for JSON
    code, calibration = 0, None  # what judged the results
    with sf.Index.open(folder, engine=engine) as index:
        request = index.check_search(**options)  # before any encoding
        embed = _embed_images if index.has_model else _embed_files
        for warning in index.warnings:
            note(f"warning: {warning}")
        console = Console()
        if as_csv:
            print(",".join(COLUMNS))
        batches = embed(index, queries, unread)
        each = (result for names, some in batches for result in index.answer(some, names, request))
        for result in _search_views(index, queries, unread, options) if views else each:
            results.append(replace(result, hits=result.hits[:1]))
            code = max(code, EXIT_CODES[result.verdict] if result.hits else NOTHING_FOUND)
            if as_json:
                facts.append(finite(result.as_dict()))
            elif as_csv:
                lines = result_as_csv(result)
                print(printable_lines(lines) if sys.stdout.isatty() else lines, end="")
            else:
                calibration = index.calibration_of(result) or calibration
                print_result(console, result, calibration)
                console.print()
        if as_json:
            print(json.dumps(facts, allow_nan=False))
        elif not as_csv:
            _print_footer(index, results, calibration, str(folder))
    if code := 1 if unread else code:
        raise Exit(code)


def _search_views(
    index: "sf.Index", queries: Sequence[str], unread: list[str], options: dict[str, Any]
) -> "Iterator[sf.SearchResult]":
    if not index.has_model:
        raise sf.InvalidArgument("--views", expected="pictures of one item", got="files of vectors")
    if views := [embeddings for _, embeddings in _embed_images(index, queries, unread)]:
        yield index.search_views(type(views[0]).cat(views), **options)


def _embed_images(
    index: "sf.Index", queries: Sequence[str], unread: list[str]
) -> "Iterator[tuple[list[str], sf.Embeddings]]":
    """Yield the images that can be read; the others are printed and counted."""
    sources = _sources(queries, unread)
    while some := list(islice(sources, BATCH_IMAGES)):
        names, images = zip(*some, strict=True)
        encoded = index.encoder.encode_all(images, max_bad_share=1.0)
        for bad in encoded.rejected:
            _skip(f"{names[bad.row]}: {bad.reason}", unread)
        if len(encoded.rows):
            yield [names[row] for row in encoded.rows.tolist()], encoded.embeddings


def _embed_files(index: "sf.Index", files: Sequence[str], unread: list[str]) -> "Iterator[tuple[list[str], Queries]]":
    """Yield the vectors of files that can be read; the others are printed and counted."""
    from surefind.vectors.reader import as_vectors, read_vectors

    for file in files:
        try:
            given = read_vectors(file)
            asked = index.as_queries(as_vectors(given.values, index.space.dim))
        except sf.SurefindError as error:
            _skip(f"{file}: {error.problem}", unread)
            continue
        names = [f"{Path(file).name}: {name}" for name in given.ids]
        for start in range(0, len(given), BATCH_VECTORS):
            some = slice(start, start + BATCH_VECTORS)
            yield names[some], asked.at(some)


def _sources(queries: Sequence[str], unread: list[str]) -> "Iterator[tuple[str, ImageSource]]":
    """Yield images with their names: files, images in folders, - for stdin."""
    for name in queries:
        if name == "-":
            from surefind.images.decode import DEFAULT

            yield name, sys.stdin.buffer.read(DEFAULT.max_bytes + 1)  # a larger one is rejected
        elif os.path.isdir(name):  # noqa: PTH112  # no error where the name is too long
            from surefind.datasets.folder import find_images

            try:
                yield from ((str(Path(name, path)),) * 2 for path in find_images(Path(name)))
            except sf.InvalidFile as error:
                _skip(error.problem, unread)
        else:
            yield name, name


def _skip(problem: str, unread: list[str]) -> None:
    from surefind.text import printable

    unread.append(problem)
    print(printable(problem), file=sys.stderr, flush=True)


def _print_footer(
    index: "sf.Index", results: "Sequence[sf.SearchResult]", calibration: "sf.Calibration | None", folder: str
) -> None:
    """Print the calibration behind the verdicts, or why there are none."""
    from surefind.confidence.explain import gallery_change, guaranteed, made_with
    from surefind.text import printable

    lines = list(dict.fromkeys(result.uncalibrated for result in results if result.uncalibrated))
    change = None
    kept = any(result.guaranteed for result in results)
    if calibration is not None:
        lines.append(f"calibrated: {made_with(calibration)}")
        if kept:
            lines.append(guaranteed(calibration.guarantee))
        elif calibration.guarantee.threshold is None:
            lines.append("Not guaranteed: see surefind info.")
        else:
            lines.append("Not guaranteed: the guarantee is for plain searches of the index as calibrated.")
        if not kept and not calibration.origin.variant:
            change = gallery_change(calibration, len(index), folder=folder)
    if lines:
        print(*map(printable, lines), sep="\n")
    if change is not None:
        note(f"warning: {change}")
