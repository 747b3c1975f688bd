"""The embedded engine: rows in a folder, in versions that follow each other whole."""

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from surefind.engines.embedded import reading
from surefind.engines.embedded.changing import Change
from surefind.engines.embedded.columns import Ints, columns_from
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.making import make
from surefind.engines.embedded.searching import search
from surefind.engines.embedded.session import Session
from surefind.engines.embedded.snapshot import Snapshot
from surefind.engines.engine import Block, Engine, Found, Keys, Rows
from surefind.engines.space import Space
from surefind.engines.where import Where
from surefind.errors import InvalidArgument


def create(place: str, space: Space, facts: Mapping[str, Any], *, kind: str) -> Engine:
    """A new, empty index in the folder `place`."""
    make(Folder(Path(place)), space, facts, kind=kind)
    return open_place(place)


def open_place(place: str) -> "EmbeddedEngine":
    """The index in the folder `place`, once every file of it was compared with its checksum."""
    return EmbeddedEngine(Session(Folder(Path(place))))


class EmbeddedEngine:
    """An `Engine` that lives in a folder; made by `create` and `open_place`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @cached_property
    def space(self) -> Space:
        return self._snapshot.manifest.store.space

    @property
    def facts(self) -> Mapping[str, Any]:
        return copy.deepcopy(self._snapshot.manifest.store.facts)

    @property
    def exact(self) -> bool:
        return all(part.graph is None for part in self._snapshot.parts)

    @property
    def most(self) -> int:
        return max(1, self.count())

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._session.troubles

    def add(self, rows: Rows) -> None:
        if not len(rows):
            return
        new = columns_from(rows, self.space)
        with self._session.writing() as base:
            dead, _ = _found(base, rows.ids)
            first = base.manifest.next_key
            keyed = new._replace(key=np.arange(first, first + len(rows), dtype=np.int64))
            self._session.change(base, Change(new=keyed, dead=dead))

    def remove(self, ids: Sequence[str]) -> int:
        with self._session.writing() as base:
            dead, count = _found(base, list(dict.fromkeys(ids)))
            self._session.change(base, Change(dead=dead))
        return count

    def compact(self) -> None:
        with self._session.writing() as base:
            self._session.change(base, Change(compact=True))

    def search(self, vectors: NDArray[np.float32], k: int, where: Where | None = None) -> Found:
        snapshot = self._snapshot
        query = _checked(vectors, k, width=snapshot.manifest.store.space.width)
        return search(snapshot, query, k, where)

    def rows(self, keys: Keys) -> Rows:
        return reading.rows_of(self._snapshot, keys)

    def find(self, ids: Sequence[str]) -> Rows:
        return reading.find(self._snapshot, ids)

    def scan(self, where: Where | None = None) -> Iterator[Block]:
        return reading.scan(self._snapshot, where)

    def digests_of(self, ids: Sequence[str]) -> dict[str, str]:
        return reading.digests_of(self._snapshot, ids)

    def ids_of(self, digests: Sequence[str]) -> dict[str, str]:
        return reading.ids_of(self._snapshot, digests)

    def count(self, where: Where | None = None) -> int:
        return self._snapshot.count(where)

    def var_range(self) -> tuple[float, float]:
        return reading.var_range(self._snapshot)

    def refresh(self) -> bool:
        return self._session.refresh()

    def newest(self) -> Self | None:
        session = self._session.newest()
        return None if session is None else type(self)(session)

    def describe(self) -> dict[str, Any]:
        return reading.describe(self._session.folder, self._snapshot)

    def verify(self) -> list[str]:
        return self._session.verify()

    def repair(self) -> list[str]:
        """Make the last whole version the newest, so that it can be written to again.

        Returns what was wrong and what was done; nothing if all was well.
        """
        return self._session.repair()

    def close(self) -> None:
        self._session.close()

    @property
    def _snapshot(self) -> Snapshot:
        return self._session.snapshot


def _found(base: Snapshot, ids: Sequence[str]) -> tuple[dict[int, Ints], int]:
    """The rows with these ids, by part, and how many there are."""
    rows = defaultdict(list)
    for _, part, row in base.with_ids(ids):
        rows[part].append(row)
    return {part: np.array(some) for part, some in rows.items()}, sum(map(len, rows.values()))


def _checked(vectors: NDArray[Any], k: object, *, width: int) -> NDArray[np.float32]:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InvalidArgument(
            "k", expected="a whole number, at least 1", got=repr(k), fix="ask for a neighbour"
        )
    found = np.asarray(vectors)
    if found.ndim != 2 or found.shape[1] != width or found.dtype.kind != "f":
        raise InvalidArgument(
            "vectors",
            expected=f"numbers of shape (Q, {width})",
            got=f"{found.dtype} of shape {found.shape}",
            fix="make them with Space.asking",
        )
    if not np.isfinite(found).all():
        raise InvalidArgument(
            "vectors", expected="finite numbers", got="others", fix="look for a diverged model"
        )
    return np.ascontiguousarray(found, dtype=np.float32)
