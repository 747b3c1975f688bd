"""The nearest rows of a whole version: of each of its parts, then of these."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.engines.embedded.flat import Vectors
from surefind.engines.embedded.snapshot import Part, Snapshot
from surefind.engines.engine import Found
from surefind.engines.where import Where

_AT_ONCE = 4096  # queries
_CANDIDATES = 2**23  # of all queries at once


def search(snapshot: Snapshot, query: Vectors, k: int, where: Where | None) -> Found:
    """k columns, or as many as there are rows that may be found."""
    parts = [part for part in snapshot.parts if _any(part, where)]
    k = min(k, snapshot.count(where))
    width = snapshot.manifest.store.space.width
    found = _nothing(len(query), k, width)
    step = max(1, min(_AT_ONCE, _CANDIDATES // max(1, k * len(parts))))
    for start in range(0, len(query) if k else 0, step):
        block = slice(start, start + step)
        _fill(found, block, _candidates(parts, query[block], k, where=where), parts)
    return found


class _Candidates(NamedTuple):
    distance: NDArray[np.float32]  # (q, k)
    part: NDArray[np.int64]
    row: NDArray[np.int64]


def _any(part: Part, where: Where | None) -> bool:
    chosen = part.selection(where)
    return chosen is None or chosen.count > 0


def _nothing(queries: int, k: int, width: int) -> Found:
    return Found(
        keys=np.full((queries, k), -1, dtype=np.int64),
        distance=np.full((queries, k), np.inf, dtype=np.float32),
        vectors=np.zeros((queries, k, width), dtype=np.float32),
        var=np.ones((queries, k)),
    )


def _candidates(parts: list[Part], query: Vectors, k: int, *, where: Where | None) -> _Candidates:
    each = [part.search(query, k, where) for part in parts]
    distance = np.concatenate([near.distance for near in each], axis=1)
    row = np.concatenate([near.rows for near in each], axis=1)
    part = np.repeat(np.arange(len(parts)), [near.rows.shape[1] for near in each])
    part = np.broadcast_to(part, row.shape)
    if len(parts) == 1:
        return _Candidates(distance, part, row)
    order = np.argsort(distance, axis=1, kind="stable")[:, :k]
    return _Candidates(*(np.take_along_axis(column, order, 1) for column in (distance, part, row)))


def _fill(found: Found, block: slice, near: _Candidates, parts: list[Part]) -> None:
    """Keys, vectors and variances of the candidates, from where they lie."""
    found.distance[block] = near.distance
    for number, part in enumerate(parts):
        here = (near.part == number) & np.isfinite(near.distance)
        of_part = ((found.keys, part.segment.key), (found.vectors, part.segment.vectors))
        for column, kept in (*of_part, (found.var, part.segment.var)):
            if here.all():  # one copy instead of two; clip: without another to look for errors
                np.take(kept, near.row, axis=0, out=column[block], mode="clip")
            else:
                column[block][here] = kept[near.row[here]]
