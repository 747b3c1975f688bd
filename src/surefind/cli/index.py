"""surefind index and surefind attach: an index of images or vectors, or of vectors that stay where they are."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace as changed
from datetime import timedelta
from functools import partial, reduce
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from typer import Argument, Exit, Option

import surefind as sf
from surefind.cli.errors import StopRequest
from surefind.cli.options import (
    IMAGES,
    JsonOption,
    Kind,
    LabelOption,
    MaxBadShareOption,
    PrecisionOption,
    Ranking,
    RuntimeOption,
    SplitOption,
    split_of,
)
from surefind.cli.output import note, print_some, rejected_as_json, set_verbosity, stages

if TYPE_CHECKING:
    from surefind.distributed import ProcessGroup
    from surefind.encoders.image_encoder import ImageEncoder
    from surefind.images.catalog import Catalog
    from surefind.search.folder import IndexFolder

TIMEOUT = timedelta(days=7)  # of torchrun's processes, whose shares take unequal time

T = TypeVar("T")


def index(
    images: Annotated[str, Argument(help=f"{IMAGES}; or vectors: a .npz, .npy or .parquet file.")],
    output: Annotated[Path, Option("--output", "-o", help="A new index, or one to add to.")],
    model: Annotated[
        str | None,
        Option(
            help="A timm name (default: mobilenetv2_100), a model folder, owner/name on the Hugging Face hub; "
            "for vectors, an upgrade. An existing index keeps its own."
        ),
    ] = None,
    weights: Annotated[Path | None, Option(help="Weights of a timm model, a .safetensors file.")] = None,
    split: SplitOption = "all",
    engine: Annotated[
        str | None, Option(help="Vector store: faiss (default), pgvector://USER@HOST/DATABASE or milvus://HOST:PORT.")
    ] = None,
    kind: Annotated[Kind, Option(help="Of a new index: flat (exact), hnsw or ivf (faster), auto (by size).")] = "auto",
    ranking: Annotated[Ranking | None, Option(help="Of a new index: mean distance (default) or expected.")] = None,
    duplicates: Annotated[Literal["skip", "keep"], Option(help="Files with equal content.")] = "skip",
    replace: Annotated[bool, Option("--replace", help="Replace images whose file has changed.")] = False,
    prefix: Annotated[str, Option(help="Prefix of the ids, if two folders share file names.")] = "",
    remove: Annotated[list[str] | None, Option(help="Id of an image to delete and not add. Repeatable.")] = None,
    max_bad_share: MaxBadShareOption = 0.05,
    compact: Annotated[bool, Option(help="Optimise the index for searching at the end.")] = True,
    calibrate: Annotated[bool, Option(help="Calibrate a new index with its labels, if there are any.")] = True,
    label: LabelOption = "label",
    precision: PrecisionOption = 0.95,
    runtime: RuntimeOption = "torch",
    as_json: JsonOption = False,
) -> None:
    """Build an index of images or of vectors; run it again to add new ones.

    If the images have labels (a sub-folder per class, a label column), the index is calibrated
    with them, and searches have confidence, labels and verdicts. Interrupt it at any time: the
    same command continues. With torchrun, the processes share the images.

    Examples:
        surefind index photos/ -o photos.index
        surefind index photos/ -o photos.index --model resnet50 --weights FILE
        surefind index gallery.npz -o vectors.index
        surefind index photos/ -o new.index --engine pgvector://me@host/db
    """
    from surefind.distributed import ProcessGroup, own_device
    from surefind.encoders.open import DEFAULT_MODEL, open_encoder
    from surefind.engines.registry import SCHEMES, is_url
    from surefind.search.folder import EMBEDDED, IndexFolder
    from surefind.validation import check_choice
    from surefind.vectors.upgrade import is_upgrade

    if engine is not None:
        known = tuple(name for name in SCHEMES if is_url(engine) != (name == EMBEDDED))
        check_choice("--engine", engine.partition("://")[0], known)
    gone = remove or []
    open_index = partial(_open, output, engine=engine, kind=kind, ranking=ranking)
    folder = IndexFolder(output)
    if model is None and is_upgrade(folder.upgrade):
        model = str(folder.upgrade)
    upgrade = Path(model) if model is not None and is_upgrade(Path(model)) else None

    finish = partial(_finish, output, calibrate=calibrate, label=label, precision=precision, as_json=as_json)
    if upgrade or (model is None and _holds_vectors(Path(images))):
        _index_vectors(open_index, upgrade, images, prefix, gone, replace=replace, compact=compact, finish=finish)
        return

    def open_model() -> "ImageEncoder":
        chosen: str | Path = model or DEFAULT_MODEL
        if model is None and weights is None and folder.exists():
            chosen = folder.model
            if not chosen.exists():
                with sf.Index.open(output, engine=engine) as vectors:
                    return vectors.encoder  # raises: it has none
        return open_encoder(chosen, weights, runtime=runtime, device=own_device())

    def prepare() -> "tuple[Catalog, sf.Index]":
        catalog = split_of(images, split)
        names = tuple(prefix + name for name in catalog.ids)
        rows = [row for row, name in enumerate(names) if name not in gone]
        return changed(catalog, ids=names).select(rows), open_index(open_model())

    policy = {"duplicates": duplicates, "replace": replace, "max_bad_share": max_bad_share}
    options = policy | {"should_stop": StopRequest()}
    world = ProcessGroup.join(TIMEOUT)
    try:
        set_verbosity(quiet=not world.is_main)
        stopped = _index_images(world, prepare, images, gone, compact=compact, options=options, finish=finish)
    finally:
        world.leave()
    if stopped:
        raise Exit(130)


def _gather(world: "ProcessGroup", ours: T) -> list[T]:
    """Return the value of every rank, in their order."""
    try:
        return world.gather(ours)
    except RuntimeError as error:  # gloo, when another process has ended
        raise sf.SurefindError(
            "another process of this run ended early",
            fix="see its messages, then run the same command again: added images are kept",
        ) from error


def _run_on_all(world: "ProcessGroup", work: Callable[[], T]) -> T:
    """Run work on all ranks; if one rank fails, all fail, and rank 0 raises the error."""
    made: list[T] = []
    error: sf.SurefindError | None = None
    try:
        made.append(work())
    except sf.SurefindError as caught:
        error = caught
    for failure in _gather(world, error and (error.problem, error.fix)):
        if failure:
            if not world.is_main:
                raise Exit(1)
            raise error or sf.SurefindError(failure[0], fix=failure[1])
    return made[0]


def _index_images(
    world: "ProcessGroup",
    prepare: "Callable[[], tuple[Catalog, sf.Index]]",
    images: str,
    remove: Sequence[str],
    *,
    compact: bool,
    options: dict[str, Any],
    finish: "Callable[[sf.Index, dict[str, Any]], None]",
) -> bool:
    """Create the index on rank 0, add a share of the images on every rank, finish on rank 0."""
    from surefind.search.ingest import Added

    first = _run_on_all(world, lambda: prepare() if world.is_main else None)
    catalog, index = _run_on_all(world, lambda: first or prepare())
    started = perf_counter()
    with index:
        share = catalog.select(range(len(catalog))[world.share(len(catalog))])

        def add() -> Added:
            with stages() as progress:
                options["progress"] = lambda done: progress("indexing", done, len(share))
                return index.add(share, recalibrate=False, **options) if len(share) else Added()

        added = reduce(Added.plus, _gather(world, _run_on_all(world, add)))
        if len(catalog) and len(added.rejected) == len(catalog):
            if not world.is_main:
                raise Exit(1)
            bad = added.rejected[0]
            raise sf.SurefindError(
                f"none of the {len(catalog)} images could be read: {bad.path}: {bad.reason}",
                fix=f"surefind check {images} lists them all",
            )
        if world.is_main:
            index.refresh()
            removed = index.remove(remove) if remove else 0
            if added.duplicates and (removed or added.replaced) and not added.stopped:
                # The original of a duplicate may be gone: replaced by another rank, or removed.
                names = dict(added.duplicates)
                rows = [row for row, name in enumerate(catalog.ids) if name in names]
                again = index.add(catalog.select(rows), max_bad_share=options["max_bad_share"])
                added = added._replace(duplicates=()).plus(again)
            if compact and not added.stopped:
                index.compact()
            finish(index, added._asdict() | {"removed": removed, "seconds": perf_counter() - started})
        return added.stopped


def _index_vectors(
    open_index: "Callable[[sf.Upgrade | int], sf.Index]",
    model: Path | None,
    file: str,
    prefix: str,
    remove: Sequence[str],
    *,
    replace: bool,
    compact: bool,
    finish: "Callable[[sf.Index, dict[str, Any]], None]",
) -> None:
    """Add the vectors of a file to an index; known ids are left out unless `replace`."""
    from surefind.search.ingest import Added
    from surefind.vectors.reader import as_points, read_vectors

    upgrade = None if model is None else sf.Upgrade.load(model)
    given = read_vectors(file)
    # raises before an index is made
    embeddings = as_points(given.values) if upgrade is None else upgrade.embed(given.values)
    started = perf_counter()
    with open_index(embeddings.dim if upgrade is None else upgrade) as index:
        names = [prefix + name for name in given.ids]
        known = set() if replace else index.known(names)
        left_out = {*known, *remove}
        rows = [row for row, name in enumerate(names) if name not in left_out]
        if rows:
            metadata = [{"label": given.labels[row]} if given.labels else {} for row in rows]
            index.add_embeddings(embeddings[rows], [names[row] for row in rows], metadata=metadata, replace=replace)
        removed = index.remove(remove) if remove else 0
        if compact:
            index.compact()
        if upgrade is not None and index.calibration is None and not given.labels:
            index.adopt(upgrade.calibrated)
        added = Added(added=len(rows), known=len(known))
        finish(index, added._asdict() | {"removed": removed, "seconds": perf_counter() - started})
        if upgrade is not None and index.calibration is None:
            index.adopt(upgrade.calibrated)


def _holds_vectors(file: Path) -> bool:
    """Whether a file holds vectors; a .parquet file may also be a table of image paths."""
    if file.suffix.lower() != ".parquet" or not file.is_file():
        return file.suffix.lower() in (".npz", ".npy")
    from surefind.datasets.table import pyarrow_package

    schema = pyarrow_package("pyarrow.parquet", file).read_schema(file)
    lists = (str(column.type).partition("<")[0].endswith("list") for column in schema)
    return any(lists) or "path" not in map(str.lower, schema.names)


def _open(
    output: Path, made_by: "ImageEncoder | sf.Upgrade | int", *, engine: str | None, kind: Kind, ranking: Ranking | None
) -> "sf.Index":
    """Create an index, or open an existing one, including one that a killed run began.

    `made_by` is an encoder, an upgrade, or the dimension of vectors of an unknown model.
    """
    from surefind.engines.registry import without_password
    from surefind.search.folder import EMBEDDED, IndexFolder
    from surefind.vectors.upgrade import fingerprint_of, is_upgrade

    folder = IndexFolder(output)
    if not folder.exists():
        return _create(folder, made_by, ranking, engine=engine or EMBEDDED, kind=kind)
    written = folder.read()
    if engine is not None and without_password(engine) != written:
        expected = f"{written}, the vector store of {output}"
        raise sf.InvalidArgument("--engine", expected=expected, got=without_password(engine))
    encoder = None if isinstance(made_by, sf.Upgrade | int) else made_by
    index = sf.Index.open(output, engine=engine, encoder=encoder)
    try:
        _check_ranking(ranking, index.space.ranking, output)
        if isinstance(made_by, int):
            index.check_model(fingerprint_of(made_by, None), "the vectors")
        if isinstance(made_by, sf.Upgrade):
            index.check_model(made_by.fingerprint, "the upgrade")
            if not is_upgrade(folder.upgrade):
                made_by.save(folder.upgrade)
    except sf.SurefindError:
        index.close()
        raise
    return index


def _create(
    folder: "IndexFolder", made_by: "ImageEncoder | sf.Upgrade | int", ranking: Ranking | None, **store: Any
) -> "sf.Index":
    from surefind.engines.base import Space
    from surefind.search.folder import EMBEDDED
    from surefind.search.index import DEFAULT_RANKING
    from surefind.vectors.upgrade import RANKING, fingerprint_of

    output = folder.path
    own = RANKING if isinstance(made_by, sf.Upgrade | int) else ranking or DEFAULT_RANKING
    _check_ranking(ranking, own, output)
    begun = {folder.model.name, Path(folder.place(EMBEDDED)).name}  # by a killed run
    with suppress(OSError):  # reported when the folder is made
        if any(path.name[0] != "." and path.name not in begun for path in output.iterdir()):
            raise sf.InvalidFile(f"{output} is neither an index nor empty", fix="name a new folder with -o")
    if isinstance(made_by, sf.Upgrade):
        return made_by.make_index(output, **store)
    if isinstance(made_by, int):
        space, fingerprint = Space(sf.Gaussians.family, made_by, own), fingerprint_of(made_by, None)
        return sf.Index.create_empty(output, space, fingerprint=fingerprint, **store)
    return sf.Index.create(output, made_by, ranking=own, **store)


def _check_ranking(ranking: Ranking | None, own: str, output: Path) -> None:
    if ranking not in (None, own):
        expected = f"{own}, the ranking of {output}"
        raise sf.InvalidArgument("--ranking", expected=expected, got=str(ranking))


def _finish(
    output: Path,
    index: "sf.Index",
    facts: dict[str, Any],
    *,
    calibrate: bool,
    label: str,
    precision: float,
    as_json: bool,
) -> None:
    """Calibrate the index with its labels, or again if it has changed; print what was done."""
    calibration = None
    if calibrate and not facts["stopped"]:
        with stages() as progress:
            if index.calibration is None:
                targets = sf.CalibrationTargets(precision=precision)
                calibration = index.calibrate_itself(targets=targets, label=label, progress=progress)
            else:
                index.recalibrate_if_stale()
                calibration = index.calibration
    added, seconds = facts["added"], facts["seconds"]
    if as_json:
        facts |= {
            "index": str(output),
            "images": len(index),
            "rejected": rejected_as_json(facts["rejected"]),
            "seconds": round(seconds, 3),
            "images_per_second": round(added / seconds, 1) if seconds else None,
            "warnings": index.warnings,
            "calibration": calibration and calibration.summary(),
        }
        print(json.dumps(facts))
        return
    rate = f" ({added / seconds:,.0f} images/s)" if added else ""
    print(f"{added:,} images added in {seconds:.1f} s{rate}")
    for count, what in (
        (facts["known"], "already in the index"),
        (facts["replaced"], "of those added replaced an older image"),
        (facts["removed"], "removed"),
    ):
        if count:
            print(f"{count:,} {what}")
    print_some("left out as duplicates", [f"{name} is a copy of {original}" for name, original in facts["duplicates"]])
    print_some("could not be read", [f"{bad.path}: {bad.reason}" for bad in facts["rejected"]])
    if facts["stopped"]:
        print("stopped; run the same command again to continue")
    print(f"{output}: {len(index):,} images")
    if calibration is not None:
        from surefind.cli.calibrate import print_calibration

        print()
        print_calibration(output, calibration)
    for warning in index.warnings:
        note(f"warning: {warning}")


def attach(
    url: Annotated[
        str, Argument(metavar="URL", help="pgvector://USER@HOST/DATABASE/TABLE, or milvus://HOST:PORT/COLLECTION.")
    ],
    output: Annotated[Path, Option("--output", "-o", help="A new index.")],
    vector: Annotated[str, Option(help="Column of vectors.")],
    id_name: Annotated[str, Option("--id", help="Column of ids.")] = "id",
    label: Annotated[str | None, Option(help="Column of labels.")] = None,
    metric: Annotated[Literal["l2", "cosine", "ip"], Option(help="Distance that the vectors are made for.")] = "l2",
    calibrate: Annotated[bool, Option(help="Calibrate it with the labels.")] = True,
    precision: PrecisionOption = 0.95,
    as_json: JsonOption = False,
) -> None:
    """Search vectors in a table, view or collection that another program filled.

    Nothing is copied, and nothing is written there; calibrations are kept in the index. Other
    columns can be filtered by.

    Examples:
        surefind attach pgvector://me@host/db/items --vector clip -o items.index
        surefind attach milvus://host/items --vector clip --label kind -o items.index
    """
    targets = sf.CalibrationTargets(precision=precision)
    with sf.Index.attach(output, url, vector=vector, id=id_name, label=label, metric=metric) as index:
        made = None
        if calibrate and label:
            with stages() as progress:
                made = index.calibrate_itself(targets=targets, progress=progress)
        facts = {"index": str(output), "images": len(index), "calibrated": made is not None}
    if as_json:
        print(json.dumps(facts))
    else:
        known = "calibrated with their labels" if made else "not calibrated"
        print(f"{output}: {facts['images']} vectors, {known}")
