"""surefind index: make images, or vectors of an upgrade, searchable."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace as changed
from datetime import timedelta
from functools import partial, reduce
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

from typer import Argument, Exit, Option

import surefind as sf
from surefind.cli.errors import StopRequest
from surefind.cli.options import (
    JsonOption,
    Kind,
    MaxBadShareOption,
    Ranking,
    RuntimeOption,
    SplitOption,
    split_of,
)
from surefind.cli.output import print_some, rejected_as_json, remark, speak, stages

if TYPE_CHECKING:
    from surefind.distributed import ProcessGroup
    from surefind.encoders.image_encoder import ImageEncoder
    from surefind.images.catalog import Catalog
    from surefind.search.ingest import Added

PATIENCE = timedelta(days=7)  # of processes that share images: shares take unequal time

T = TypeVar("T")


class _Done(NamedTuple):
    """What became of the images, in all processes."""

    images: int  # in the index now
    added: "Added"
    removed: int
    seconds: float  # for adding and compacting
    warnings: tuple[str, ...]


def index(
    model: Annotated[Path, Argument(help="A model of surefind train, or of surefind upgrade.")],
    images: Annotated[
        str,
        Argument(help="A folder, a CSV, NAME:FOLDER, or 'glyphs'; of an upgrade, vectors."),
    ],
    output: Annotated[Path, Option("--output", "-o", help="A new index, or one to add to.")],
    split: SplitOption = "all",
    engine: Annotated[
        str | None,
        Option(
            help="Where the vectors live: faiss (in the folder), pgvector://... or milvus://..."
        ),
    ] = None,
    kind: Annotated[
        Kind, Option(help="For a new index: flat (exact), hnsw or ivf (quicker).")
    ] = "auto",
    ranking: Annotated[Ranking | None, Option(help="Native distance of a new index.")] = None,
    duplicates: Annotated[Literal["skip", "keep"], Option(help="Copies of other images.")] = "skip",
    replace: Annotated[bool, Option("--replace", help="Replace images that have changed.")] = False,
    prefix: Annotated[str, Option(help="Put before ids, if two folders share file names.")] = "",
    remove: Annotated[
        list[str] | None, Option(help="An id to leave out, and delete. Repeatable.")
    ] = None,
    max_bad_share: MaxBadShareOption = 0.05,
    compact: Annotated[bool, Option(help="Optimise the index for searching at the end.")] = True,
    runtime: RuntimeOption = "torch",
    as_json: JsonOption = False,
) -> None:
    """Make images searchable; run it again to add what is new.

    Interrupt it at any time: the same command goes on where it was. Under torchrun the processes
    share the images.

    Examples:
        surefind index model photos/ -o photos.index
        surefind index model new-photos/ -o photos.index --prefix new/
        surefind index model photos/ -o photos.index --engine pgvector://me@host/db
    """
    from surefind.distributed import ProcessGroup, own_device
    from surefind.encoders.onnx.runtime import open_encoder
    from surefind.engines.registry import SCHEMES, is_url
    from surefind.search.folder import EMBEDDED
    from surefind.validation import check_choice
    from surefind.vectors.upgrade import is_upgrade

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

    def prepare() -> "tuple[Catalog, sf.Index]":
        catalog = split_of(images, split)
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
            _Processes(world), prepare, images, remove=gone, compact=compact,
            options=policy | {"should_stop": stop},
        )  # fmt: skip
    finally:
        world.leave()
    if world.is_main:
        _print(output, done, as_json=as_json)
    if done.added.stopped:
        raise Exit(130)


class _Processes:
    """The processes of torchrun, or this one alone: an error of one is an error of all."""

    def __init__(self, world: "ProcessGroup") -> None:
        import torch.distributed as dist

        self.world = world
        self._group = dist.new_group(timeout=PATIENCE) if world.size > 1 else None

    def gather(self, ours: T) -> list[T]:
        """Return what every process has, in the order of their ranks."""
        import torch.distributed as dist

        if self.world.size == 1:
            return [ours]
        received: list[Any] = [None] * self.world.size
        try:
            dist.all_gather_object(received, ours, group=self._group)
        except RuntimeError as error:  # gloo, when a peer has gone
            raise sf.SurefindError(
                "another process of this run ended early",
                fix="see what it said, and run the same command again: what was added is kept",
            ) from error
        return received

    def attempt(self, work: Callable[[], T]) -> T:
        """Do the work; the first process raises an error of any, the others end silently."""
        made: list[T] = []
        error: sf.SurefindError | None = None
        try:
            made.append(work())
        except sf.SurefindError as caught:
            error = caught
        for failure in self.gather(error and (error.problem, error.fix)):
            if failure:
                if not self.world.is_main:
                    raise Exit(1)
                raise error or sf.SurefindError(failure[0], fix=failure[1])
        return made[0]


def _index_images(
    processes: _Processes,
    prepare: "Callable[[], tuple[Catalog, sf.Index]]",
    images: str,
    *,
    remove: Sequence[str],
    compact: bool,
    options: dict[str, Any],
) -> _Done:
    """The first process makes the index, every process adds its share, the first finishes it."""
    from surefind.search.ingest import Added

    world = processes.world
    first = processes.attempt(lambda: prepare() if world.is_main else None)
    catalog, index = processes.attempt(lambda: first or prepare())
    started = perf_counter()
    with index:
        share = catalog.select(range(len(catalog))[world.share(len(catalog))])

        def add() -> Added:
            with stages() as tell:
                options["progress"] = lambda done: tell("indexing", done, len(share))
                return index.add(share, **options) if len(share) else Added()

        added = reduce(Added.plus, processes.gather(processes.attempt(add)))
        if len(catalog) and len(added.rejected) == len(catalog):
            if not world.is_main:
                raise Exit(1)
            bad = added.rejected[0]
            raise sf.SurefindError(
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
                again = index.add(catalog.select(rows), max_bad_share=options["max_bad_share"])
                added = added._replace(duplicates=()).plus(again)
            if compact and not added.stopped:
                index.compact()
        return _Done(len(index), added, removed, perf_counter() - started, index.warnings)


def _index_vectors(
    open_index: "Callable[[sf.Upgrade], sf.Index]",
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
    from surefind.vectors.reader import read_vectors

    upgrade, given = sf.Upgrade.load(model), read_vectors(file)
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
    made_by: "ImageEncoder | sf.Upgrade",
    *,
    engine: str | None,
    kind: Kind,
    ranking: Ranking | None,
) -> "sf.Index":
    """Make the index, or open the one that is there, also where a run was killed making it."""
    from surefind.engines.registry import without_password
    from surefind.search.folder import EMBEDDED, IndexFolder
    from surefind.search.index import DEFAULT_RANKING
    from surefind.vectors.upgrade import RANKING, is_upgrade

    folder = IndexFolder(output)
    if not folder.exists():
        made = RANKING if isinstance(made_by, sf.Upgrade) else ranking or DEFAULT_RANKING
        _check_ranking(ranking, made, output)
        begun = {folder.model.name, Path(folder.place(EMBEDDED)).name}  # by a run that was killed
        with suppress(OSError):  # what else may be wrong is told when the folder is made
            if any(path.name[0] != "." and path.name not in begun for path in output.iterdir()):
                raise sf.InvalidFile(
                    f"{output} is no index, and is not empty", fix="name a new folder with -o"
                )
        if isinstance(made_by, sf.Upgrade):
            return made_by.make_index(output, engine=engine or EMBEDDED, kind=kind)
        return sf.Index.create(output, made_by, engine=engine or EMBEDDED, kind=kind, ranking=made)
    written = folder.read()
    if engine is not None and without_password(engine) != written:
        raise sf.InvalidArgument(
            "--engine",
            expected=f"{written}, where {output} has its vectors",
            got=without_password(engine),
        )
    encoder = None if isinstance(made_by, sf.Upgrade) else made_by
    index = sf.Index.open(output, engine=engine, encoder=encoder)
    try:
        _check_ranking(ranking, index.space.ranking, output)
        if isinstance(made_by, sf.Upgrade):
            index.check_model(made_by.fingerprint, "the upgrade")
            if not is_upgrade(folder.upgrade):
                made_by.save(folder.upgrade)
    except sf.SurefindError:
        index.close()
        raise
    return index


def _check_ranking(ranking: Ranking | None, made: str, output: Path) -> None:
    if ranking not in (None, made):
        expected = f"{made}, as {output} is made"
        raise sf.InvalidArgument("--ranking", expected=expected, got=str(ranking))


def _print(output: Path, done: _Done, *, as_json: bool) -> None:
    added, seconds = done.added, done.seconds
    if as_json:
        facts = {
            "index": str(output),
            "images": done.images,
            **added._asdict(),
            "rejected": rejected_as_json(added.rejected),
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
