"""Vectors instead of images: into an index of an upgrade, and as queries of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from surefind.cli.index_request import Request, refuse_other_folders
from surefind.cli.indexing import Outcome
from surefind.cli.queries import Answer, complain
from surefind.engines.where import Metadata
from surefind.errors import InvalidArgument, SurefindError
from surefind.search.adding import Added
from surefind.search.folder import EMBEDDED, IndexFolder
from surefind.search.index import Index
from surefind.upgrade.upgrade import RANKING, Upgrade, is_upgrade
from surefind.upgrade.vectors import read_vectors

AT_ONCE = 1024  # queries


def index_vectors(request: Request) -> Outcome:
    """Make an index of a file of vectors, or add those that are new."""
    _check_ranking(request)
    upgrade, given = Upgrade.load(request.model), read_vectors(request.images)
    embeddings = upgrade.embed(given.values)  # before anything is made
    started = perf_counter()
    with _open(request, upgrade) as index:
        names = [request.prefix + name for name in given.ids]
        known = set() if request.replace else index.known(names)
        left_out = known | set(request.remove)
        rows = [row for row, name in enumerate(names) if name not in left_out]
        facts: list[Metadata] = [
            {"label": given.labels[row]} if given.labels else {} for row in rows
        ]
        if rows:
            index.add_embeddings(
                embeddings[rows],
                [names[row] for row in rows],
                metadata=facts,
                replace=request.replace,
            )
        removed = index.remove(request.remove) if request.remove else 0
        if request.compact:
            index.compact()
        if index.calibration is None:
            index.adopt(upgrade.calibrated)
        added = Added(added=len(rows), known=len(known))
        seconds = perf_counter() - started
        return Outcome(request.output, len(index), added, removed, seconds, index.warnings)


def _open(request: Request, upgrade: Upgrade) -> Index:
    """The index: made, or continued, also where a run was killed while making it."""
    if not IndexFolder(request.output).exists():
        refuse_other_folders(request.output)
        return upgrade.make_index(
            request.output, engine=request.engine or EMBEDDED, kind=request.kind
        )
    index = Index.open(request.output, engine=request.engine)
    index.check_model(upgrade.fingerprint, str(request.model))
    if not is_upgrade(IndexFolder(request.output).upgrade):
        upgrade.save(IndexFolder(request.output).upgrade)
    return index


def _check_ranking(request: Request) -> None:
    if request.ranking not in (None, RANKING):
        raise InvalidArgument(
            "--ranking",
            expected=f"{RANKING}, in which vectors were calibrated",
            got=str(request.ranking),
            fix="leave it out: a search can ask for either ranking",
        )


@dataclass
class VectorQueries:
    """Files of vectors that ask an index of an upgrade; the same face as `Queries`."""

    upgrade: Upgrade
    written: Sequence[str]
    unread: int = 0

    def one_by_one(self, index: Index, options: dict[str, Any]) -> Iterator[Answer]:
        for file in self.written:
            try:
                given = read_vectors(file)
                embeddings = self.upgrade.embed(given.values)
            except SurefindError as error:
                self.unread += 1
                complain(f"{file}: {error.problem}")
                continue
            for start in range(0, len(given), AT_ONCE):
                some = slice(start, start + AT_ONCE)
                results = index.search(embeddings[some], **options)
                for name, result in zip(given.ids[some], results, strict=True):
                    yield Answer(replace(result, query=f"{Path(file).name}: {name}"), None)

    def as_views(self, index: Index, options: dict[str, Any]) -> Iterator[Answer]:
        raise InvalidArgument(
            "--views",
            expected="pictures of one item",
            got="files of vectors",
            fix="fuse them in Python: index.search_views(upgrade.embed(vectors))",
        )
