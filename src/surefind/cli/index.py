"""surefind index: make images, or vectors of an upgrade, searchable."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace as changed
from functools import partial, reduce
from pathlib import Path
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from surefind.cli.errors import StopRequest
from surefind.cli.options import (
    JsonOption,
    Kind,
    MaxBadShareOption,
    PartOption,
    Ranking,
    RuntimeOption,
    part_of,
)
from surefind.cli.output import print_some, remark, speak
from surefind.errors import InvalidArgument, InvalidFile, SurefindError

if TYPE_CHECKING:
    from surefind.distributed import ProcessGroup
    from surefind.encoders.image_encoder import ImageEncoder
    from surefind.images.catalog import Catalog
    from surefind.search.index import Index
    from surefind.search.ingest import Added
    from surefind.upgrade.upgrade import Upgrade

SECONDS_BETWEEN_LINES = 10.0  # of progress, where there is no terminal


class _Done(NamedTuple):
    """What became of the images, in all processes."""

    images: int  # in the index now
    added: "Added"
    removed: int
    seconds: float  # for adding and compacting
    warnings: tuple[str, ...]


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
    part: PartOption = "all",
    engine: Annotated[
        str | None,
        typer.Option(
            help="Where the vectors live: faiss (in the folder), pgvector://... or milvus://..."
        ),
    ] = None,
    kind: Annotated[
        Kind, typer.Option(help="Of a new index: flat is exact, hnsw and ivf are quicker.")
    ] = "auto",
    ranking: Annotated[
        Ranking | None, typer.Option(help="The distance that a new index is quickest at.")
    ] = None,
    duplicates: Annotated[
        Literal["skip", "keep"], typer.Option(help="Images with the content of another.")
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
    max_bad_share: MaxBadShareOption = 0.05,
    compact: Annotated[
        bool, typer.Option(help="Put everything in its best form for searching at the end.")
    ] = True,
    runtime: RuntimeOption = "torch",
    as_json: JsonOption = False,
) -> None:
    """Make images searchable; run it again to add what is new.

    Stop it whenever you like: the same command goes on where it was. Under torchrun the processes
    share the images.

    Examples:
        surefind index model photos/ -o photos.index
        surefind index model new-photos/ -o photos.index --prefix new/
        surefind index model photos/ -o photos.index --engine pgvector://me@host/db
    """
    from surefind.distributed import ProcessGroup, own_device
    from surefind.encoders.onnx.runtime import open_encoder
    from surefind.engines.opening import SCHEMES, is_url
    from surefind.search.folder import EMBEDDED
    from surefind.upgrade.upgrade import is_upgrade
    from surefind.validation import check_choice

    if engine is not None:
        known = tuple(name for name in SCHEMES if is_url(engine) != (name == EMBEDDED))
        check_choice("--engine", engine.partition("://")[0], known)
    gone = remove or []
    open_index = partial(_open, output, engine=engine, kind=kind, ranking=ranking)
    if is_upgrade(model):
        done = _index_vectors(
            open_index, model, images, prefix=prefix, remove=gone, replace=replace, compact=compact
        )
        _print(output, done, as_json=as_json)
        return

    def prepare() -> "tuple[Catalog, Index]":
        catalog = part_of(images, part)
        names = tuple(prefix + name for name in catalog.ids)
        left_out = set(gone)
        rows = [row for row, name in enumerate(names) if name not in left_out]
        catalog = changed(catalog, ids=names).select(rows)
        return catalog, open_index(open_encoder(model, runtime, device=own_device()))

    stop = StopRequest()
    world = ProcessGroup.join()
    policy = {"duplicates": duplicates, "replace": replace, "max_bad_share": max_bad_share}
    try:
        speak(quiet=not world.is_main)  # of torchrun's processes one tells
        done = _index_images(
            world, prepare, images, policy=policy, remove=gone, compact=compact, should_stop=stop
        )
    finally:
        world.leave()
    if world.is_main:
        _print(output, done, as_json=as_json)
    if done.added.stopped:
        raise typer.Exit(130)


def _index_images(
    world: "ProcessGroup",
    prepare: "Callable[[], tuple[Catalog, Index]]",
    images: str,
    *,
    policy: dict[str, Any],
    remove: Sequence[str],
    compact: bool,
    should_stop: Callable[[], bool],
) -> _Done:
    """The first process makes the index, every process adds its share, the first finishes it."""
    from surefind.cli.sharing import Together
    from surefind.search.ingest import Added

    together = Together(world)
    catalog, index = together.first(prepare)
    started = perf_counter()
    with index:
        share = catalog.select(range(len(catalog))[world.share(len(catalog))])
        ours = together.attempt(lambda: _add(index, share, policy, should_stop))
        added = reduce(Added.plus, together.gather(ours))
        if len(catalog) and len(added.rejected) == len(catalog):
            if not world.is_main:
                raise typer.Exit(1)
            bad = added.rejected[0]
            raise SurefindError(
                f"none of the {len(catalog)} images could be read: {bad.path}: {bad.reason}",
                fix=f"surefind check {images} lists them all",
            )
        removed = 0
        if world.is_main:
            index.refresh()
            removed = index.remove(remove) if remove else 0
            if added.duplicates and (removed or added.replaced) and not added.stopped:
                # Another process may have replaced the original, or it was removed.
                names = dict(added.duplicates)
                rows = [row for row, name in enumerate(catalog.ids) if name in names]
                again = index.add(catalog.select(rows), max_bad_share=policy["max_bad_share"])
                added = added._replace(duplicates=()).plus(again)
            if compact and not added.stopped:
                index.compact()
        return _Done(len(index), added, removed, perf_counter() - started, index.warnings)


def _add(
    index: "Index", share: "Catalog", policy: dict[str, Any], should_stop: Callable[[], bool]
) -> "Added":
    from surefind.search.ingest import Added

    if not len(share):
        return Added()
    with _bar(len(share)) as tell:
        return index.add(share, **policy, progress=tell, should_stop=should_stop)


def _index_vectors(
    open_index: "Callable[[Upgrade], Index]",
    model: Path,
    file: str,
    *,
    prefix: str,
    remove: Sequence[str],
    replace: bool,
    compact: bool,
) -> _Done:
    """Make an index of a file of vectors, or add those that are new."""
    from surefind.search.ingest import Added
    from surefind.upgrade.upgrade import Upgrade
    from surefind.upgrade.vectors import read_vectors

    upgrade, given = Upgrade.load(model), read_vectors(file)
    embeddings = upgrade.embed(given.values)  # before anything is made
    started = perf_counter()
    with open_index(upgrade) as index:
        names = [prefix + name for name in given.ids]
        known = set() if replace else index.known(names)
        left_out = {*known, *remove}
        rows = [row for row, name in enumerate(names) if name not in left_out]
        if rows:
            index.add_embeddings(
                embeddings[rows],
                [names[row] for row in rows],
                metadata=[{"label": given.labels[row]} if given.labels else {} for row in rows],
                replace=replace,
            )
        removed = index.remove(remove) if remove else 0
        if compact:
            index.compact()
        if index.calibration is None:
            index.adopt(upgrade.calibrated)
        added = Added(added=len(rows), known=len(known))
        return _Done(len(index), added, removed, perf_counter() - started, index.warnings)


def _open(
    output: Path,
    made_by: "ImageEncoder | Upgrade",
    *,
    engine: str | None,
    kind: Kind,
    ranking: Ranking | None,
) -> "Index":
    """Make the index, or open the one that is there, also where a run was killed making it."""
    from surefind.engines.opening import without_password
    from surefind.search.folder import EMBEDDED, IndexFolder
    from surefind.search.index import DEFAULT_RANKING, Index
    from surefind.upgrade.upgrade import RANKING, Upgrade, is_upgrade

    folder = IndexFolder(output)
    if not folder.exists():
        made = RANKING if isinstance(made_by, Upgrade) else ranking or DEFAULT_RANKING
        _check_ranking(ranking, made, output)
        begun = {folder.model.name, Path(folder.place(EMBEDDED)).name}  # by a run that was killed
        with suppress(OSError):  # what else may be wrong is told when the folder is made
            if any(path.name[0] != "." and path.name not in begun for path in output.iterdir()):
                raise InvalidFile(
                    f"{output} is no index, and is not empty", fix="name a new folder with -o"
                )
        if isinstance(made_by, Upgrade):
            return made_by.make_index(output, engine=engine or EMBEDDED, kind=kind)
        return Index.create(output, made_by, engine=engine or EMBEDDED, kind=kind, ranking=made)
    written = folder.read()
    if engine is not None and without_password(engine) != written:
        raise InvalidArgument(
            "--engine",
            expected=f"{written}, where {output} has its vectors",
            got=without_password(engine),
        )
    encoder = None if isinstance(made_by, Upgrade) else made_by
    index = Index.open(output, engine=engine, encoder=encoder)
    try:
        _check_ranking(ranking, index.space.ranking, output)
        if isinstance(made_by, Upgrade):
            index.check_model(made_by.fingerprint, "the upgrade")
            if not is_upgrade(folder.upgrade):
                made_by.save(folder.upgrade)
    except SurefindError:
        index.close()
        raise
    return index


def _check_ranking(ranking: Ranking | None, made: str, output: Path) -> None:
    if ranking not in (None, made):
        raise InvalidArgument(
            "--ranking",
            expected=f"{made}, as {output} is made",
            got=str(ranking),
        )


def _print(output: Path, done: _Done, *, as_json: bool) -> None:
    added, seconds = done.added, done.seconds
    if as_json:
        facts = {
            "index": str(output),
            "images": done.images,
            **added._asdict(),
            "rejected": [{"path": bad.path, "reason": bad.reason} for bad in added.rejected],
            "removed": done.removed,
            "seconds": round(seconds, 3),
            "images_per_second": round(added.added / seconds, 1) if seconds else None,
            "warnings": list(done.warnings),
        }
        print(json.dumps(facts))
        return
    rate = f" ({added.added / seconds:,.0f} images/s)" if added.added else ""
    print(f"{added.added:,} images added in {seconds:.1f} s{rate}")
    for count, what in (
        (added.known, "were there already"),
        (added.replaced, "of those added took the place of an older picture"),
        (done.removed, "removed"),
    ):
        if count:
            print(f"{count:,} {what}")
    print_some("left out as copies of others", [f"{name} is {by}" for name, by in added.duplicates])
    print_some("could not be read", [f"{bad.path}: {bad.reason}" for bad in added.rejected])
    if added.stopped:
        print("stopped; run the same command again to go on")
    print(f"{output}: {done.images:,} images")
    for warning in done.warnings:
        remark(f"warning: {warning}")


@contextmanager
def _bar(total: int) -> "Iterator[Callable[[int], None]]":
    """Rate and time left on stderr; a line now and then where it is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    from surefind.cli.output import bars, line

    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeLeft()
    started = told = monotonic()
    with bars(TextColumn("indexing"), *columns) as bar:
        task = bar.add_task("", total=total, rate="")

        def tell(done: int) -> None:
            nonlocal told
            now = monotonic()
            rate = f"{done / (now - started):,.0f} images/s" if now > started else ""
            bar.update(task, completed=done, rate=rate)
            if now - told > SECONDS_BETWEEN_LINES:
                told = now
                line(bar, f"{done:,} of {total:,} · {rate}")

        yield tell
