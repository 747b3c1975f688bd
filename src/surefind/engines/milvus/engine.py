"""An engine on a Milvus server, which others may read and write at the same time."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from surefind.engines.engine import KINDS, Block, EngineError, Found, Keys, Rows
from surefind.engines.milvus import checking, entry, making, reading, searching, writing
from surefind.engines.milvus import vector_index as indexes
from surefind.engines.milvus.driver import Collection
from surefind.engines.milvus.expressions import expression
from surefind.engines.milvus.url import parse
from surefind.engines.space import Space
from surefind.engines.where import Where
from surefind.validation import check_choice

UNKNOWN = (np.inf, 0.0)  # the range of no variances


def create(place: str, space: Space, facts: Mapping[str, Any], *, kind: str) -> "MilvusEngine":
    check_choice("kind", kind, ("auto", *KINDS))
    where = parse(place)
    making.check_width(space.width)
    description = entry.written(entry.new_entry(space, facts, kind))
    collection = Collection(where)
    try:
        making.make(collection, description, space.width)
        return MilvusEngine(collection)
    except BaseException:
        collection.close()
        raise


def open_place(place: str) -> "MilvusEngine":
    collection = Collection(parse(place))
    try:
        return MilvusEngine(collection)
    except BaseException:
        collection.close()
        raise


class MilvusEngine:
    """Opened by `create` and `open_place`. Several threads may use it.

    Reads see all that was written here; what others wrote they see after a moment, and for certain
    after `refresh`. When the server goes away the call raises `EngineError`; the next one connects
    anew.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection, self._place = collection, collection.place
        self._entry = entry.read(collection.description(), self._place)
        self._kind = indexes.ensure(collection, self._entry.kind)
        self._var_range = UNKNOWN
        collection.catch_up()
        self._seen: int | None = self.count()

    @property
    def space(self) -> Space:
        return self._entry.space

    @property
    def facts(self) -> Mapping[str, Any]:
        return MappingProxyType(dict(self._entry.facts))

    @property
    def exact(self) -> bool:
        return self._kind == "flat"

    @property
    def most(self) -> int:
        return searching.most(self.space.width)

    @property
    def warnings(self) -> tuple[str, ...]:
        rows = self._seen or 0
        if self._kind == "flat" != indexes.wanted(self._entry.kind, self._kind, rows):
            return (f"{rows} rows are looked at one by one: compact the index.",)
        return ()

    def add(self, rows: Rows) -> None:
        """Batch by batch: whatever stops it, whole batches of some megabytes are there."""
        if not len(rows):
            return
        for batch in writing.batches(rows, self.space):
            self._seen = None
            self._collection.upsert(batch)
        self._collection.catch_up()

    def remove(self, ids: Sequence[str]) -> int:
        removed = writing.remove(self._collection, ids)
        self._seen = None if self._seen is None else self._seen - removed
        return removed

    def search(self, vectors: NDArray[np.float32], k: int, where: Where | None = None) -> Found:
        return searching.search(self._collection, vectors, k, expression=expression(where))

    def rows(self, keys: Keys) -> Rows:
        return reading.rows(self._collection, keys, self.space)

    def find(self, ids: Sequence[str]) -> Rows:
        return reading.find(self._collection, ids, self.space)

    def scan(self, where: Where | None = None) -> Iterator[Block]:
        """Rows that are there all the while come once; what others write meanwhile may come."""
        return reading.scan(self._collection, where, self.space)

    def digests_of(self, ids: Sequence[str]) -> dict[str, str]:
        return reading.digests_of(self._collection, ids)

    def ids_of(self, digests: Sequence[str]) -> dict[str, str]:
        return reading.ids_of(self._collection, digests)

    def count(self, where: Where | None = None) -> int:
        return self._collection.count(expression(where))

    def var_range(self) -> tuple[float, float]:
        # one that another thread sets back meanwhile is not the answer
        found = self._var_range = reading.var_range(self._collection, self._var_range)
        return found

    def refresh(self) -> bool:
        """Waits until all that anyone wrote before can be read.

        Milvus tells how many rows there are, not that one was replaced, nor by whom: it is True
        as well after own additions.
        """
        self._check_it_is_the_same()
        kind = indexes.ensure(self._collection, self._entry.kind)
        self._collection.catch_up()
        rows = self.count()
        changed = (rows, kind) != (self._seen, self._kind)
        self._seen, self._kind, self._var_range = rows, kind, UNKNOWN
        return changed

    def newest(self) -> Self | None:
        """Itself, if `refresh` saw a change: reads show what is there."""
        return self if self.refresh() else None

    def compact(self) -> None:
        """Writes everything to the server's store and builds the index that the kind wants.

        Where that is another kind than before, nobody can read until it is built.
        """
        self._collection.flush()
        self._collection.catch_up()
        kind = indexes.wanted(self._entry.kind, self._kind, self.count())
        if kind != self._kind:
            indexes.rebuild(self._collection, kind)
        indexes.wait(self._collection)
        self._kind, self._var_range = kind, UNKNOWN

    def describe(self) -> dict[str, Any]:
        return {
            "engine": "milvus",
            "place": self._place.shown,
            "collection": self._place.collection,
            "kind": self._kind,
            "asked_kind": self._entry.kind,
            "rows": self.count(),
            "server": f"Milvus {self._collection.server_version()}",
        }

    def verify(self) -> list[str]:
        return checking.check(self._collection, self.space)

    def drop(self) -> None:
        """Remove the index and all its rows from the server."""
        self._check_it_is_the_same()
        self._collection.drop()
        self.close()

    def close(self) -> None:
        self._collection.close()

    def _check_it_is_the_same(self) -> None:
        found = entry.read(self._collection.description(), self._place)
        if found.number != self._entry.number:
            raise EngineError(
                f"the collection at {self._place.shown} was dropped, and another made",
                fix="open the index again",
            )
