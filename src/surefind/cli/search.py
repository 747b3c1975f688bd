"""surefind search: which images of an index are nearest to these?"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

import surefind as sf
from surefind.cli.options import EngineOption, IndexArgument, JsonOption, Ranking
from surefind.cli.output import remark

if TYPE_CHECKING:
    from surefind.images.decode import ImageSource

    Asked = tuple[Sequence[str], Sequence[ImageSource | None], sf.Embeddings]  # names, pictures
    Answer = tuple[sf.SearchResult, ImageSource | None]

EXIT_CODES = {"match": 0, "unsure": 3, "no_match": 4}  # of several queries the worst counts
AT_ONCE = 32  # images encoded together
VECTORS_AT_ONCE = 1024


def search(
    folder: IndexArgument,
    queries: Annotated[
        list[str],
        Argument(
            metavar="QUERY",
            help="Image files, folders of images, or - for an image on stdin; "
            "of an index of vectors, files of them.",
        ),
    ],
    k: Annotated[int, Option("-k", min=1, help="Hits per query; all if there are fewer.")] = 5,
    ranking: Annotated[Ranking | None, Option(help="Distance; default: the index's own.")] = None,
    where: Annotated[
        list[str] | None,
        Option(help="Only such images: label=cat, 'year >= 2020', var<0.1. Repeatable."),
    ] = None,
    radius: Annotated[
        float | None, Option(help="Show P(within this distance) of each hit.")
    ] = None,
    expand: Annotated[int, Option(min=0, help="Neighbours for query expansion.")] = 0,
    views: Annotated[bool, Option("--views", help="All queries show one item.")] = False,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, Option("--csv", help="Print a line per hit as CSV.")] = False,
    pictures: Annotated[bool, Option("--preview/--no-preview", help="Small pictures.")] = True,
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
    from surefind.cli.rendering import COLUMNS, result_as_dict, results_as_csv
    from surefind.text import printable_lines

    if as_json and as_csv:
        raise sf.InvalidArgument("--json, --csv", expected="one of them", got="both")
    options = {
        "k": k, "ranking": ranking, "where": where or None, "radius": radius, "expand": expand
    }  # fmt: skip
    upgrade = sf.Upgrade.of_index(folder)
    if upgrade is not None and views:
        raise sf.InvalidArgument(
            "--views",
            expected="pictures of one item",
            got="files of vectors",
            fix="fuse them in Python: index.search_views(upgrade.embed(vectors))",
        )
    unread: list[str] = []
    results: list[sf.SearchResult] = []
    with sf.Index.open(folder, engine=engine) as index:
        for warning in index.warnings:
            remark(f"warning: {warning}")
        if upgrade is not None:
            asked = _embed_vectors(upgrade, queries, unread)
        else:
            asked = _embed_images(index, queries, unread)
        found = _search(index, asked, options, results, views=views)
        if as_json:
            told = [result_as_dict(result) for result, _ in found]
            print(json.dumps({"index": str(folder), "results": told}, allow_nan=False))
        elif as_csv:
            show = printable_lines if sys.stdout.isatty() else str
            print(",".join(COLUMNS))
            for result, _ in found:
                print(show(results_as_csv([result])), end="")
        else:
            _print_tables(index, found, pictures=pictures)
            _print_footer(index, results)
    worst = max((EXIT_CODES[result.verdict] for result in results if result.verdict), default=0)
    if unread or worst:
        raise Exit(1 if unread else worst)


def _search(
    index: "sf.Index",
    asked: "Iterator[Asked]",
    options: dict[str, Any],
    results: "list[sf.SearchResult]",
    *,
    views: bool,
) -> "Iterator[Answer]":
    """Search batch by batch, or once with all views; results are kept without their hits."""
    answers: Iterable[Answer]
    if views:
        batches = [embeddings for _, _, embeddings in asked]
        found = [index.search_views(type(batches[0]).cat(batches), **options)] if batches else []
        answers = ((result, None) for result in found)
    else:
        answers = (
            (replace(result, query=name), source)
            for names, sources, embeddings in asked
            for name, source, result in zip(
                names, sources, index.search(embeddings, **options), strict=True
            )
        )
    for result, source in answers:
        results.append(replace(result, hits=()))
        yield result, source


def _embed_images(
    index: "sf.Index", queries: Sequence[str], unread: list[str]
) -> "Iterator[Asked]":
    """Yield images that can be read; the others are told and counted."""
    sources = _sources(queries, unread)
    while some := list(islice(sources, AT_ONCE)):
        encoded = index.encoder.encode_all([source for _, source in some], max_bad_share=1.0)
        for bad in encoded.rejected:
            _pass_over(f"{some[bad.row][0]}: {bad.reason}", unread)
        if len(encoded.rows):
            names, images = zip(*(some[row] for row in encoded.rows.tolist()), strict=True)
            yield names, images, encoded.embeddings


def _embed_vectors(
    upgrade: "sf.Upgrade", files: Sequence[str], unread: list[str]
) -> "Iterator[Asked]":
    """Yield the vectors of files that can be read; the others are told and counted."""
    from surefind.vectors.reader import read_vectors

    for file in files:
        try:
            given = read_vectors(file)
            embeddings = upgrade.embed(given.values)
        except sf.SurefindError as error:
            _pass_over(f"{file}: {error.problem}", unread)
            continue
        names = [f"{Path(file).name}: {name}" for name in given.ids]
        for start in range(0, len(given), VECTORS_AT_ONCE):
            some = slice(start, start + VECTORS_AT_ONCE)
            yield names[some], [None] * len(names[some]), embeddings[some]


def _sources(queries: Sequence[str], unread: list[str]) -> "Iterator[tuple[str, ImageSource]]":
    """Yield images with their names: files, those in folders, - for one on stdin."""
    from surefind.datasets.folder import find_images
    from surefind.images.decode import DEFAULT

    for name in queries:
        if name == "-":
            yield name, sys.stdin.buffer.read(DEFAULT.max_bytes + 1)  # one more is refused later
        elif os.path.isdir(name):  # noqa: PTH112  # no error where the name is too long
            try:
                yield from ((str(Path(name, path)),) * 2 for path in find_images(Path(name)))
            except sf.InvalidFile as error:
                _pass_over(error.problem, unread)
        else:
            yield name, name


def _pass_over(problem: str, unread: list[str]) -> None:
    from surefind.text import printable

    unread.append(problem)
    print(printable(problem), file=sys.stderr, flush=True)


def _print_tables(index: "sf.Index", found: "Iterator[Answer]", *, pictures: bool) -> None:
    from rich.console import Console

    from surefind.cli.rendering import print_result

    console, calibration = Console(), index.calibration
    for number, (result, source) in enumerate(found):
        if number:
            console.print()
        print_result(console, result, source, calibration=calibration, pictures=pictures)


def _print_footer(index: "sf.Index", results: "Sequence[sf.SearchResult]") -> None:
    """Print what the verdicts rest on, or why there are none."""
    from surefind.confidence.explain import gallery_change, guaranteed, made_with
    from surefind.text import printable

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
    if calibration.guarantee.threshold is not None:
        print(guaranteed(calibration.guarantee))
    if (change := gallery_change(calibration, len(index))) is not None:
        remark(f"warning: {change}")
