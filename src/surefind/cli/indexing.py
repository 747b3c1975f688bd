"""From images to an index, in one process or in those that torchrun started."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from surefind.cli.index_request import Request, open_index
from surefind.cli.sharing import Together
from surefind.errors import SurefindError
from surefind.images.catalog import Catalog
from surefind.images.loading import TooManyRejected
from surefind.search.adding import Added
from surefind.search.index import Index
from surefind.training.world import World

Tell = Callable[[int, int], None]  # how many images are done, out of how many


class Outcome(NamedTuple):
    """What became of the images, in all processes."""

    folder: Path
    images: int  # in the index now
    added: Added
    removed: int
    seconds: float  # for adding and compacting
    warnings: tuple[str, ...]

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
            "warnings": list(self.warnings),
        }


def run(request: Request, world: World, *, should_stop: Callable[[], bool], tell: Tell) -> Outcome:
    """The first process makes the index, every process adds its share, the first finishes it."""
    together = Together(world)
    catalog, index = together.first(lambda: open_index(request))
    started = perf_counter()
    with index:
        share = catalog.select(range(len(catalog))[world.share(len(catalog))])
        ours = together.attempt(
            lambda: _add(index, share, request, should_stop=should_stop, tell=tell)
        )
        added = reduce(Added.plus, together.gather(ours))
        together.attempt(lambda: _refuse_nothing(request, catalog, added))
        removed = 0
        if world.writes:
            index.refresh()
            removed = index.remove(request.remove) if request.remove else 0
            if added.duplicates and (removed or added.replaced) and not added.stopped:
                added = _add_copies(index, catalog, request, added)
            if request.compact and not added.stopped:
                index.compact()
        seconds = perf_counter() - started
        return Outcome(request.output, len(index), added, removed, seconds, index.warnings)


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


def _add_copies(index: Index, catalog: Catalog, request: Request, added: Added) -> Added:
    """Look at copies again: another process may have replaced the original, or it was removed."""
    names = dict(added.duplicates)
    copies = catalog.select([row for row, name in enumerate(catalog.ids) if name in names])
    again = index.add(copies, max_bad_share=request.max_bad_share)
    return added._replace(duplicates=()).plus(again)


def _refuse_nothing(request: Request, catalog: Catalog, added: Added) -> None:
    """A search among no images is not what anybody wanted."""
    if len(catalog) and len(added.rejected) == len(catalog):
        bad = added.rejected[0]
        raise SurefindError(
            f"none of the {len(catalog)} images could be read: {bad.path}: {bad.reason}",
            fix=f"surefind check {request.images} lists them all",
        )
