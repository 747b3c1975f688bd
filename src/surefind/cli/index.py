"""surefind index: make images searchable."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.cli.stopping import StopRequest
from surefind.cli.voice import remark, speak

if TYPE_CHECKING:
    from surefind.cli.indexing import Outcome

SHOWN = 5  # duplicates and rejected images that are named
SECONDS_BETWEEN_LINES = 10.0  # of progress, where there is no terminal


def index(
    model: Annotated[
        Path, typer.Argument(help="A model of surefind train, or of surefind upgrade.")
    ],
    images: Annotated[
        str,
        typer.Argument(help="A folder, a CSV, NAME:FOLDER, or 'glyphs'; of an upgrade, vectors."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The index: a new folder, or one to add to.")
    ],
    part: Annotated[str, typer.Option(help="all of the data, train, val or test.")] = "all",
    engine: Annotated[
        str | None,
        typer.Option(
            help="Where the vectors live: faiss (in the folder), pgvector://... or milvus://..."
        ),
    ] = None,
    kind: Annotated[
        str, typer.Option(help="Of a new index: auto, flat (exact), hnsw or ivf (quicker).")
    ] = "auto",
    ranking: Annotated[
        str | None, typer.Option(help="What a new index is quickest at: expected or mean distance.")
    ] = None,
    duplicates: Annotated[
        str, typer.Option(help="Images with the content of another: skip or keep.")
    ] = "skip",
    replace: Annotated[
        bool, typer.Option("--replace", help="Images whose content changed take the old's place.")
    ] = False,
    prefix: Annotated[
        str, typer.Option(help="Put before ids, where two folders have equal file names.")
    ] = "",
    remove: Annotated[
        list[str] | None, typer.Option(help="An id to leave out, and to forget. Repeatable.")
    ] = None,
    max_bad_share: Annotated[
        float, typer.Option(help="Stop when more than this share of images cannot be read.")
    ] = 0.05,
    compact: Annotated[
        bool, typer.Option(help="Put everything in its best form for searching at the end.")
    ] = True,
    runtime: Annotated[
        str, typer.Option(help="What encodes: torch, or its export: onnx or onnx-int8.")
    ] = "torch",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Make images searchable; run it again to add what is new.

    Stop it whenever you like: the same command goes on where it was. Under torchrun the processes
    share the images.

    Examples:
        surefind index model photos/ -o photos.index
        surefind index model new-photos/ -o photos.index --prefix new/
        surefind index model photos/ -o photos.index --engine pgvector://me@host/db
    """
    from surefind.cli.index_request import Request
    from surefind.cli.indexing import run
    from surefind.training.world import World
    from surefind.upgrade.upgrade import is_upgrade

    request = Request(
        model=model,
        images=images,
        output=output,
        part=part,
        engine=engine,
        kind=kind,
        ranking=ranking,
        duplicates=duplicates,
        replace=replace,
        prefix=prefix,
        remove=tuple(remove or ()),
        max_bad_share=max_bad_share,
        compact=compact,
        runtime=runtime,
    )
    if is_upgrade(model):
        from surefind.cli.vectors import index_vectors

        _print(index_vectors(request), as_json=as_json)
        return
    stop = StopRequest()
    world = World.join()
    try:
        speak(quiet=not world.writes)  # of torchrun's processes one tells
        with _bar() as tell:
            outcome = run(request, world, should_stop=stop, tell=tell)
    finally:
        world.leave()
    if world.writes:
        _print(outcome, as_json=as_json)
    if outcome.added.stopped:
        raise typer.Exit(130)


def _print(outcome: "Outcome", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(outcome.as_dict()))
    else:
        _tell(outcome)


def _tell(outcome: "Outcome") -> None:
    from surefind.search.printable import printable

    added = outcome.added
    rate = f" ({added.added / outcome.seconds:,.0f} images/s)" if added.added else ""
    print(f"{added.added:,} images added in {outcome.seconds:.1f} s{rate}")
    if added.known:
        print(f"{added.known:,} were there already")
    if added.replaced:
        print(f"{added.replaced:,} of those added took the place of an older picture")
    if outcome.removed:
        print(f"{outcome.removed:,} removed")
    copies = [f"{name} is {other}" for name, other in added.duplicates]
    bad = [f"{rejection.path}: {rejection.reason}" for rejection in added.rejected]
    for what, lines in (("left out as copies of others", copies), ("could not be read", bad)):
        if lines:
            print(f"{len(lines):,} {what}:")
            for line in lines[:SHOWN]:
                print(f"  {printable(line)}")
            if len(lines) > SHOWN:
                print(f"  and {len(lines) - SHOWN:,} more (all with --json)")
    if added.stopped:
        print("stopped; run the same command again to go on")
    print(f"{outcome.folder}: {outcome.images:,} images")
    for warning in outcome.warnings:
        remark(f"warning: {warning}")


@contextmanager
def _bar() -> "Iterator[Callable[[int, int], None]]":
    """Rate and time left on stderr; a line now and then where it is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    from surefind.cli.progress import bars, line

    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeLeft()
    started = told = monotonic()
    with bars(TextColumn("indexing"), *columns) as bar:
        task = bar.add_task("", total=None, rate="")

        def tell(done: int, total: int) -> None:
            nonlocal started, told
            now = monotonic()
            if not done:
                started = now
            rate = f"{done / (now - started):,.0f} images/s" if done and now > started else ""
            bar.update(task, completed=done, total=total, rate=rate)
            if now - told > SECONDS_BETWEEN_LINES:
                told = now
                line(bar, f"{done:,} of {total:,} · {rate}")

        yield tell
