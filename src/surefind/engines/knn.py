"""k nearest rows of any engine in either ranking, ordered in float64."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import Embeddings
from surefind.engines.base import Engine, Keys, Queries
from surefind.engines.filters import Where
from surefind.functional.ranking import candidate_distances, ranking_keys

SPARE = 3  # candidates beyond k: the engine's float32 may order close rows differently
RERANKED, LEAST_RERANKED = 10, 100  # candidates for the other ranking: 10 k, and at least 100
LARGE = 1000  # above it the rows are counted first
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
        """Number of rows of each query, (Q,)."""
        return np.asarray(np.isfinite(self.ranked_by).sum(axis=1))

    def at(self, places: Any) -> "Nearest":
        """Index all columns alike."""
        return Nearest(*(column[places] for column in self))

    def first(self, k: int) -> "Nearest":
        """Sort, and keep the first k."""
        order = np.argsort(self.ranked_by, axis=1, kind="stable")[:, :k]
        return self.at((np.arange(len(order))[:, None], order))

    def besides(self, names: NDArray[np.object_], own: Sequence[str], k: int) -> "Nearest":
        """Drop each query's own row from its k + 1 nearest, whose ids are `names` (Q, K).

        `own` has the ids of the queries, "" for those that are not in the index.
        """
        itself = names == np.array(own, dtype=object)[:, None]
        return self._replace(ranked_by=np.where(itself, np.inf, self.ranked_by)).first(k)

    @staticmethod
    def nothing(width: int) -> "Nearest":
        """Return the result of no queries."""
        empty = np.empty((0, 0))
        vectors = np.empty((0, 0, width), np.float32)
        return Nearest(empty.astype(np.int64), empty, vectors, empty, empty)

    @staticmethod
    def joined(parts: Sequence["Nearest"]) -> "Nearest":
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
    engine: Engine, query: Embeddings | Queries, k: int, *, ranking: str, where: Where | None = None
) -> Nearest:
    """Return the k nearest rows in a ranking; fewer where fewer satisfy `where`.

    In the other ranking than the engine's own, its nearest 10 k (at least 100) are re-ranked: a row
    behind them is not found.
    """
    space = engine.space
    asked = space.queries(query) if isinstance(query, Embeddings) else query
    if not len(asked.mean):
        return Nearest.nothing(space.width)
    fetch = k + SPARE if ranking == space.ranking else max(RERANKED * k, LEAST_RERANKED)
    if fetch > min(LARGE, engine.max_k):
        fetch = max(1, min(fetch, engine.count(where), engine.max_k))
    step = max(1, NUMBERS_AT_ONCE // (fetch * space.width))
    parts = []
    for start in range(0, len(asked.mean), step):
        some = slice(start, start + step)
        found = engine.search(asked.vectors[some], fetch, where)
        between = candidate_distances(asked.mean[some], space.means(found.vectors))
        keys = ranking_keys(between, found.var, dim=space.dim, family=space.family, ranking=ranking)
        keys = np.where(np.isfinite(found.distance), keys, np.inf)
        parts.append(Nearest(found.keys, keys, found.vectors, found.var, between).first(k))
    return Nearest.joined(parts)


def names_of(engine: Engine, near: Nearest) -> NDArray[np.object_]:
    """Return the ids of hits, (Q, K); "" where there is none."""
    found = np.isfinite(near.ranked_by)
    keys, place = np.unique(near.keys[found], return_inverse=True)
    names = np.full(near.keys.shape, "", dtype=object)
    names[found] = np.array(engine.records(keys).ids, dtype=object)[place]
    return names
