"""From images to an index, in one process or in those that torchrun started."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import torch

from surefind.choices import check_choice
from surefind.cli.sharing import Together
from surefind.datasets import read_catalog
from surefind.encoders.encoder import Encoder
from surefind.engines.engine import KINDS
from surefind.engines.opening import SCHEMES, is_url, without_password
from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.functional.search_bounds import RANKINGS
from surefind.images.catalog import Catalog
from surefind.images.loading import TooManyRejected
from surefind.search.adding import Added
from surefind.search.folder import EMBEDDED, IndexFolder
from surefind.search.index import DUPLICATES, Index
from surefind.training.world import World

Tell = Callable[[int, int], None]  # how many images are done, out of how many


@dataclass(frozen=True)
class Request:
    """The arguments of the command."""

    model: Path
    images: str
    output: Path
    engine: str | None = None
    kind: str = "auto"
    ranking: str | None = None
    duplicates: str = "skip"
    replace: bool = False
    prefix: str = ""
    remove: tuple[str, ...] = ()
    max_bad_share: float = 0.05
    compact: bool = True

    def __post_init__(self) -> None:
        """Before anything is made."""
        check_choice("--kind", self.kind, ("auto", *KINDS))
        check_choice("--duplicates", self.duplicates, DUPLICATES)
        if self.ranking is not None:
            check_choice("--ranking", self.ranking, RANKINGS)
        if self.engine is not None:
            known = tuple(name for name in SCHEMES if is_url(self.engine) != (name == EMBEDDED))
            check_choice("--engine", self.engine.partition("://")[0], known)
        if not 0 <= self.max_bad_share <= 1:
            raise InvalidArgument(
                "--max-bad-share",
                expected="a share in [0, 1]",
                got=str(self.max_bad_share),
                fix="0.05 allows one bad image in twenty",
            )


class Outcome(NamedTuple):
    """What became of the images, in all processes."""

    folder: Path
    images: int  # in the index now
    added: Added
    removed: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        facts = self.added._asdict() | {
            "rejected": [{"path": bad.path, "reason": bad.reason} for bad in self.added.rejected],
        }
        rate = round(self.added.added / self.seconds, 1) if self.seconds else None
        return {
            "index": str(self.folder),
            "images": self.images,
            **facts,
            "removed": self.removed,
            "seconds": round(self.seconds, 3),
            "images_per_second": rate,
        }


def run(request: Request, world: World, *, should_stop: Callable[[], bool], tell: Tell) -> Outcome:
    """The first process makes the index, every process adds its share, the first finishes it."""
    started = perf_counter()
    together = Together(world)
    catalog, index = together.first(lambda: _open(request))
    with index:
        share = catalog.select(range(len(catalog))[world.share(len(catalog))])
        ours = together.attempt(
            lambda: _add(index, share, request, should_stop=should_stop, tell=tell)
        )
        added = reduce(Added.plus, together.gather(ours))
        if not added.added + added.known and len(added.rejected) == len(catalog) > 0:
            raise _nothing_read(request, added)
        removed = 0
        if world.writes:
            index.refresh()
            removed = index.remove(request.remove) if request.remove else 0
            if request.compact and not added.stopped:
                index.compact()
        return Outcome(request.output, len(index), added, removed, perf_counter() - started)


def _open(request: Request) -> tuple[Catalog, Index]:
    """What is to be added, and the index: made, or continued."""
    catalog = read_catalog(request.images)
    catalog = replace(catalog, ids=tuple(request.prefix + name for name in catalog.ids))
    left_out = set(request.remove)
    catalog = catalog.select([row for row, id_ in enumerate(catalog.ids) if id_ not in left_out])
    encoder = Encoder.load(request.model).to(_device())
    if IndexFolder(request.output).exists():
        return catalog, _continue(request, encoder)
    _refuse_other_folders(request.output)
    return catalog, Index.create(
        request.output,
        encoder,
        engine=request.engine or EMBEDDED,
        kind=request.kind,
        ranking=request.ranking or RANKINGS[0],
    )


def _continue(request: Request, encoder: Encoder) -> Index:
    written = IndexFolder(request.output).read()
    if request.engine is not None and without_password(request.engine) != written:
        raise InvalidArgument(
            "--engine",
            expected=f"{written}, where {request.output} has its vectors",
            got=without_password(request.engine),
            fix="leave it out, or name another folder with -o",
        )
    index = Index.open(request.output, engine=request.engine, encoder=encoder)
    if request.ranking not in (None, index.space.ranking):
        made = index.space.ranking
        index.close()
        raise InvalidArgument(
            "--ranking",
            expected=f"{made}, as {request.output} was made",
            got=str(request.ranking),
            fix="leave it out: a search can ask for either ranking",
        )
    return index


def _add(
    index: Index,
    share: Catalog,
    request: Request,
    *,
    should_stop: Callable[[], bool],
    tell: Tell,
) -> Added:
    if not len(share):
        return Added()
    tell(0, len(share))
    try:
        return index.add(
            share,
            duplicates=request.duplicates,
            replace=request.replace,
            max_bad_share=request.max_bad_share,
            progress=lambda done: tell(done, len(share)),
            should_stop=should_stop,
        )
    except TooManyRejected as error:
        raise SurefindError(
            error.problem,
            fix="repair or remove them, or skip any number of them: --max-bad-share 1",
        ) from error


def _refuse_other_folders(output: Path) -> None:
    """An index is not made among files of another kind, such as the images themselves."""
    folder = IndexFolder(output)
    begun = {folder.model.name, Path(folder.place(EMBEDDED)).name}  # by a run that was killed
    try:
        others = {path.name for path in output.iterdir() if path.name[0] != "."} - begun
    except OSError:
        return  # not there; what else may be wrong is told when the folder is made
    if others:
        raise InvalidFile(
            f"{output} is no index, and is not empty", fix="name a new folder with -o"
        )


def _nothing_read(request: Request, added: Added) -> SurefindError:
    bad = added.rejected[0]
    return SurefindError(
        f"none of the {len(added.rejected)} images could be read: {bad.path}: {bad.reason}",
        fix=f"surefind check {request.images} lists them all",
    )


def _device() -> str:
    if not torch.cuda.is_available():
        return "cpu"
    return f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % torch.cuda.device_count()}"
