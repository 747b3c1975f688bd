"""k nearest rows: of any engine in either ranking, ordered in float64; of a part of it; in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from surefind._faiss import faiss
from surefind.embeddings import Embeddings
from surefind.engines.base import Block, Engine, Found, Keys, Queries, Records
from surefind.engines.filters import Where
from surefind.functional.ranking import candidate_distances, ranking_keys

if TYPE_CHECKING:
    from torch import Tensor

QUERIES_AT_ONCE = 16_384  # in memory
NUMBERS_AT_ONCE = 16_000_000  # of candidates' vectors: 64 MB


class Nearest(NamedTuple):
    """Nearest rows of each query; where there are fewer than K, `ranked_by` is infinite."""

    keys: Keys  # (Q, K)
    ranked_by: NDArray[np.float64]  # (Q, K), without the query's own variance; ascending
    vectors: NDArray[np.float32]  # (Q, K, width)
    var: NDArray[np.float64]  # (Q, K)
    distance: NDArray[np.float64]  # (Q, K), squared, of the means

    @property
    def found(self) -> NDArray[np.int64]:
        return np.asarray(np.isfinite(self.ranked_by).sum(axis=1))

    def at(self, places: Any) -> Nearest:
        return Nearest(*(column[places] for column in self))

    def first(self, k: int) -> Nearest:
        """Sort, and keep the first k."""
        order = np.argsort(self.ranked_by, axis=1, kind="stable")[:, :k]
        return self.at((np.arange(len(order))[:, None], order))

    def besides(self, names: NDArray[np.object_], own: Sequence[str], k: int) -> Nearest:
        """Drop each query's own row from its k + 1 nearest, whose ids are `names` (Q, K).

        `own` has the ids of the queries, "" for those that are not in the index.
        """
        itself = names == np.array(own, dtype=object)[:, None]
        return self._replace(ranked_by=np.where(itself, np.inf, self.ranked_by)).first(k)

    @staticmethod
    def nothing(width: int) -> Nearest:
        empty = np.empty((0, 0))
        vectors = np.empty((0, 0, width), np.float32)
        return Nearest(empty.astype(np.int64), empty, vectors, empty, empty)

    @staticmethod
    def joined(parts: Sequence[Nearest]) -> Nearest:
        """Concatenate queries, padded to the same K."""
        if len(parts) == 1:
            return parts[0]
        wide, padded = max(part.keys.shape[1] for part in parts), []
        for part in parts:
            around = [(0, 0), (0, wide - part.keys.shape[1])]
            columns = [np.pad(its, [*around, (0, 0)][: its.ndim]) for its in part]
            columns[1] = np.pad(part.ranked_by, around, constant_values=np.inf)
            padded.append(columns)
        return Nearest(*map(np.concatenate, zip(*padded, strict=True)))


def nearest(
    engine: Engine,
    query: Embeddings | Queries,
    k: int,
    *,
    ranking: str,
    where: Where | None = None,
    vectors: bool = True,
) -> Nearest:
    """Return the k nearest rows in a ranking, fewer where fewer satisfy `where`; without `vectors`, not theirs.

    In the other ranking than the engine's own, its nearest 10 k (at least 100) are re-ranked: a row
    behind them is not found.
    """
    space = engine.space
    asked = space.queries(query)
    if not len(asked.mean):
        return Nearest.nothing(space.width)
    # the engine's float32 may order close rows differently
    fetch = k + 3 if ranking == space.ranking else max(10 * k, 100)
    if fetch > min(1000, engine.max_k):  # counting takes a moment too
        fetch = max(1, min(fetch, engine.count(where), engine.max_k))
    step = max(1, NUMBERS_AT_ONCE // (fetch * space.width))
    parts = []
    for start in range(0, len(asked.mean), step):
        some = slice(start, start + step)
        found = engine.search(asked.vectors[some], fetch, where)
        between = candidate_distances(asked.mean[some], space.means(found.vectors))
        keys = ranking_keys(between, found.var, dim=space.dim, family=space.family, ranking=ranking)
        keys = np.where(np.isfinite(found.distance), keys, np.inf)
        kept = found.vectors if vectors else found.vectors[..., :0]
        parts.append(Nearest(found.keys, keys, kept, found.var, between).first(k))
    return Nearest.joined(parts)


def names_of(engine: Engine, near: Nearest) -> NDArray[np.object_]:
    """Return the ids of hits, (Q, K); "" where there is none."""
    found = np.isfinite(near.ranked_by)
    keys, place = np.unique(near.keys[found], return_inverse=True)
    names = np.full(near.keys.shape, "", dtype=object)
    names[found] = np.array(engine.records(keys).ids, dtype=object)[place]
    return names


def records_of(engine: Engine, near: Nearest) -> tuple[Records, NDArray[np.int64]]:
    """Return the rows of all hits, each once, and the place of every hit among them, (Q, K)."""
    keys, place = np.unique(near.keys, return_inverse=True)
    return engine.records(keys), place.reshape(near.keys.shape)


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


class Neighbours(NamedTuple):
    """Nearest rows of a gallery for each query; ties in the order of rows."""

    rows: Tensor  # (Q, K) int64
    distance: Tensor  # (Q, K) squared


def nearest_rows(query: Tensor, gallery: Tensor, k: int, *, itself: Tensor | None = None) -> Neighbours:
    """Return the k nearest by squared Euclidean distance; all of the gallery if it has fewer.

    `itself` (Q,) is the gallery row of each query, which is left out. faiss finds the candidates;
    their distances are computed from differences, as |x|^2 + |y|^2 - 2 x'y has no digits left in
    float32 for close pairs.
    """
    import torch

    query, gallery = (x.detach().float().contiguous() for x in (query, gallery))
    found = min(k, len(gallery) - (itself is not None))
    rows, distances = [], []
    for start in range(0, len(query), QUERIES_AT_ONCE):
        block = query[start : start + QUERIES_AT_ONCE]
        _, near = faiss.knn(block.numpy(), gallery.numpy(), found + (itself is not None))
        candidates = torch.from_numpy(near).sort(dim=1).values
        between = torch.empty(candidates.shape)
        for column, chosen in enumerate(candidates.T):
            torch.sum((gallery[chosen] - block).square_(), dim=1, out=between[:, column])
        if itself is not None:  # comes last, and is cut off
            between[candidates == itself[start : start + QUERIES_AT_ONCE, None]] = torch.inf
        between, order = between.sort(dim=1, stable=True)
        rows.append(candidates.gather(1, order)[:, :found])
        distances.append(between[:, :found])
    return Neighbours(torch.cat(rows), torch.cat(distances))
