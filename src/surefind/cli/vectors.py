"""Vectors instead of images: into an index of an upgrade, and as queries of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from surefind.cli.index_request import Request
from surefind.cli.indexing import Outcome
from surefind.cli.queries import Answer, complain
from surefind.engines.where import Metadata
from surefind.errors import InvalidArgument, SurefindError
from surefind.search.adding import Added
from surefind.search.folder import EMBEDDED, IndexFolder
from surefind.search.index import Index
from surefind.upgrade.upgrade import Upgrade
from surefind.upgrade.vectors import read_vectors

AT_ONCE = 1024  # queries


def index_vectors(request: Request) -> Outcome:
    """Make an index of a file of vectors, or add those that are new."""
    upgrade, given = Upgrade.load(request.model), read_vectors(request.images)
    started = perf_counter()
    known: set[str] = set()
    made = not IndexFolder(request.output).exists()
    if made:
        index = upgrade.make_index(
            request.output, engine=request.engine or EMBEDDED, kind=request.kind
        )
    else:
        index = Index.open(request.output, engine=request.engine)
        index.check_model(upgrade.fingerprint, str(request.model))
    with index:
        names = [request.prefix + name for name in given.ids]
        if not request.replace:
            known = index.known(names)
        left_out = known | set(request.remove)
        rows = [row for row, name in enumerate(names) if name not in left_out]
        facts: list[Metadata] = [
            {"label": given.labels[row]} if given.labels else {} for row in rows
        ]
        if rows:
            index.add_embeddings(
                upgrade.embed(given.values[rows]),
                [names[row] for row in rows],
                metadata=facts,
                replace=request.replace,
            )
        removed = index.remove(request.remove) if request.remove else 0
        if request.compact:
            index.compact()
        if made:
            index.adopt(upgrade.calibrated)
        added = Added(added=len(rows), known=len(known))
        seconds = perf_counter() - started
        return Outcome(request.output, len(index), added, removed, seconds, index.warnings)


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
