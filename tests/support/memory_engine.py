"""The plainest engine there can be: what the others are compared with."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from surefind.engines.base import Block, Found, Keys, Records, Rows, Space
from surefind.engines.filters import Where, check_fields


class MemoryEngine:
    """Rows in a dictionary, distances in float64."""

    exact, max_k, warnings = True, 2**31, ()

    def __init__(self, space: Space, facts: Mapping[str, Any] | None = None) -> None:
        self.space, self.facts = space, dict(facts or {"fingerprint": "none"})
        self.kept: dict[str, tuple[int, Rows]] = {}
        self.next = self.changes = 0

    @property
    def revision(self) -> tuple[str, int]:
        return "memory", self.changes

    def add(self, rows: Rows) -> None:
        self.changes += 1
        self.space.check(rows.embeddings)
        for row, name in enumerate(rows.ids):
            one = Rows((name,), rows.embeddings[row], (rows.digests[row],), (rows.metadata[row],))
            self.kept[name] = (self.next, one)
            self.next += 1

    def remove(self, ids: Sequence[str]) -> int:
        self.changes += 1
        return sum(self.kept.pop(name, None) is not None for name in dict.fromkeys(ids))

    def search(self, vectors: NDArray[np.float32], k: int, where: Where | None = None) -> Found:
        block = self._block(where)
        apart = vectors[:, None].astype(np.float64) - block.vectors.astype(np.float64)
        distance = (apart**2).sum(axis=2).astype(np.float32)
        order = np.argsort(distance, axis=1, kind="stable")[:, :k]
        near = np.take_along_axis(distance, order, axis=1)
        return Found(block.keys[order], near, block.vectors[order], block.var[order])

    def rows(self, keys: Keys) -> Rows:
        by_key = dict(self.kept.values())
        found = [by_key[int(key)] for key in keys]
        if not found:
            empty = self.space.embeddings(np.empty((0, self.space.width), "f4"), np.empty(0))
            return Rows((), empty, (), ())
        return Rows(
            tuple(one.ids[0] for one in found),
            type(found[0].embeddings).cat([one.embeddings for one in found]),
            tuple(one.digests[0] for one in found),
            tuple(one.metadata[0] for one in found),
        )

    def records(self, keys: Keys) -> Records:
        rows = self.rows(keys)
        return Records(rows.ids, rows.digests, rows.metadata)

    def find(self, ids: Sequence[str]) -> Rows:
        known = [self.kept[name][0] for name in dict.fromkeys(ids) if name in self.kept]
        return self.rows(np.array(known, dtype=np.int64))

    def scan(self, where: Where | None = None) -> Iterator[Block]:
        yield self._block(where)

    def digests_of(self, ids: Sequence[str]) -> dict[str, str]:
        return {name: self.kept[name][1].digests[0] for name in ids if name in self.kept}

    def ids_of(self, digests: Sequence[str]) -> dict[str, str]:
        known = {rows.digests[0]: name for name, (_, rows) in self.kept.items()}
        return {digest: known[digest] for digest in digests if digest and digest in known}

    def count(self, where: Where | None = None) -> int:
        return len(self._block(where).keys)

    def refresh(self) -> bool:
        return False

    def newest(self) -> Self | None:
        return None  # nobody else writes

    def compact(self) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {"kind": "flat"}

    def verify(self) -> list[str]:
        return []

    def release(self) -> None: ...

    def close(self) -> None: ...

    def _block(self, where: Where | None) -> Block:
        chosen = [
            (key, rows)
            for key, rows in sorted(self.kept.values(), key=lambda pair: pair[0])
            if where is None or where.holds(rows.metadata[0], float(self.space.var(rows.embeddings)[0]))
        ]
        if not chosen and self.kept:
            rows = [rows.metadata[0] for _, rows in self.kept.values()]
            holds = lambda some: any(some.holds(facts, 1.0) for facts in rows)
            check_fields(where or Where(()), holds, lambda: itertools.chain(*rows))
        if not chosen:
            return Block(np.empty(0, "i8"), np.empty((0, self.space.width), "f4"), np.empty(0))
        return Block(
            np.array([key for key, _ in chosen]),
            np.concatenate([self.space.gallery_vectors(rows.embeddings) for _, rows in chosen]),
            np.concatenate([self.space.var(rows.embeddings) for _, rows in chosen]),
        )
