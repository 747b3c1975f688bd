"""Part of an engine's rows: those that satisfy a filter, or the nearest in the other ranking."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from surefind.engines.base import Block, Engine, Found, Queries
from surefind.engines.filters import Where
from surefind.engines.knn import nearest


def engine_view(engine: Engine, *, where: Where | None = None, ranking: str | None = None) -> Engine:
    """Return an engine for reading that finds only rows that satisfy `where`.

    `ranking` is that of the candidates of a search, by default the engine's own.
    """
    return cast("Engine", _View(engine, where, ranking or engine.space.ranking))


class _View:
    def __init__(self, engine: Engine, where: Where | None, ranking: str) -> None:
        self._engine, self._where, self._ranking = engine, where, ranking

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def search(self, vectors: NDArray[np.float32], k: int, where: Where | None = None) -> Found:
        both = self._both(where)
        if self._ranking == self._engine.space.ranking:
            return self._engine.search(vectors, k, both)
        mean = vectors[:, : self._engine.space.dim].astype(np.float64)
        query = Queries(vectors, mean, np.ones(len(mean)))
        near = nearest(self._engine, query, k, ranking=self._ranking, where=both)
        distance = near.ranked_by.astype(np.float32)
        return Found(near.keys, distance, near.vectors, near.var)

    def scan(self, where: Where | None = None) -> Iterator[Block]:
        return self._engine.scan(self._both(where))

    def count(self, where: Where | None = None) -> int:
        return self._engine.count(self._both(where))

    def _both(self, where: Where | None) -> Where | None:
        if self._where is None or where is None:
            return self._where or where
        return Where(self._where.conditions + where.conditions)
