"""The nearest rows of an engine in either ranking: proven where the engine looks at every row.

An engine orders by one ranking. For the other, more is fetched until what has not been fetched is
provably farther; the same proof covers the rounding of the engine's own arithmetic.
"""

import math

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import Embeddings
from surefind.engines.engine import Block, Engine, Found
from surefind.engines.where import Where
from surefind.functional.search_bounds import keys_between, other_bound, ranking_keys
from surefind.search.nearest import Nearest

SPARE = 3  # fetched beyond k, so that rounding seldom asks for a second search
GROWTH = 16
QUERIES_AT_ONCE = 256
FETCHED_SHARE, LEAST_FARTHEST, FARTHEST = 64, 512, 16_384  # one row in 64 is fetched at most
LARGE_K = 1000  # from here on it is worth counting how many there are
NUMBERS_AT_ONCE = 16_000_000  # of candidates' vectors: 64 MB


def nearest(
    engine: Engine, query: Embeddings, k: int, *, ranking: str, where: Where | None = None
) -> Nearest:
    """The k rows that are nearest in a ranking; fewer where fewer satisfy `where`.

    Exact for an engine that looks at every row, whichever ranking is asked for.
    """
    if k > min(LARGE_K, engine.most):
        k = max(1, min(k, engine.count(where), engine.most))
    if not len(query):
        return Nearest.nothing(engine.space.width)
    return _Asking(engine, query, k, ranking=ranking, where=where).answer()


class _Asking:
    """One batch of queries on its way to an answer."""

    def __init__(
        self, engine: Engine, query: Embeddings, k: int, *, ranking: str, where: Where | None
    ) -> None:
        self.engine, self.space, self.k = engine, engine.space, k
        self.ranking, self.where = ranking, where
        self.native = ranking == self.space.ranking
        self.vectors = self.space.asking(query)
        self.means = query.mean.detach().cpu().double().numpy()
        low, high = engine.var_range()
        self.var_range = (low, high) if where is None else where.var_range(low, high)

    def answer(self) -> Nearest:
        first = self.k if self.native and not self.engine.exact else self.k + SPARE
        self.parts: list[tuple[NDArray[np.int64], Nearest]] = []
        self._ask(np.arange(len(self.means)), first)
        rows = np.concatenate([rows for rows, _ in self.parts])
        near = Nearest.below([part for _, part in self.parts])
        return near if np.all(np.diff(rows) > 0) else near.at(np.argsort(rows))

    def _ask(self, rows: NDArray[np.int64], fetch: int) -> None:
        """Fetch so many for these queries; ask again for those where that proves nothing."""
        fetch = min(fetch, self.engine.most)
        size = max(1, NUMBERS_AT_ONCE // (fetch * self.space.width))
        unproven = []
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            found = self.engine.search(self.vectors[some], fetch, self.where)
            keys = self._keys(some, found)
            proven = self._proven(some, found, keys, fetch)
            near = Nearest(found.keys, keys, found.vectors, found.var)
            if not proven.all():
                near = near.at(proven)
            self.parts.append((some[proven], near.first(self.k)))
            unproven.append(some[~proven])
        rest = np.concatenate(unproven)
        if len(rest) and fetch * GROWTH <= self._worth_fetching():
            self._ask(rest, fetch * GROWTH)
        elif len(rest):
            self._look_at_everything(rest)

    def _worth_fetching(self) -> int:
        """Beyond this, looking at every row once costs less."""
        share = self.engine.count() // FETCHED_SHARE
        return min(self.engine.most, max(LEAST_FARTHEST, min(share, FARTHEST)))

    def _keys(self, rows: NDArray[np.int64], found: Found) -> NDArray[np.float64]:
        """What the candidates are ranked by, in float64; infinite where there is none."""
        means = self.space.means(found.vectors)
        keys = ranking_keys(
            self.means[rows], means, found.var, family=self.space.family, ranking=self.ranking
        )
        return np.where(np.isfinite(found.distance), keys, np.inf)

    def _proven(
        self, rows: NDArray[np.int64], found: Found, keys: NDArray[np.float64], fetch: int
    ) -> NDArray[np.bool_]:
        """Which queries have their k nearest among the candidates."""
        if self._was_all(found, fetch) or (self.native and not self.engine.exact):
            return np.ones(len(rows), dtype=bool)
        ended = ~np.isfinite(found.distance[:, -1])  # there were no more
        last = np.where(ended, 0, found.distance[:, -1]).astype(np.float64)
        unseen = last - self._rounding(rows, last)
        if not self.native:
            unseen = other_bound(
                unseen,
                native=self.space.ranking,
                family=self.space.family,
                dim=self.space.dim,
                var_range=self.var_range,
            )
        kth = np.partition(keys, self.k - 1, axis=1)[:, self.k - 1]
        proven: NDArray[np.bool_] = ended | (kth <= unseen)
        return proven

    def _was_all(self, found: Found, fetch: int) -> bool:
        columns = found.keys.shape[1]
        return columns < fetch or (fetch == self.engine.most and columns >= self.engine.count())

    def _rounding(self, rows: NDArray[np.int64], last: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far the engine's float32 distances may be from the truth.

        Products of vectors of length L are off by some eps sqrt(width) L^2; what has not been
        fetched and could be nearer than `last` is at most sqrt(last) longer than the query.
        """
        length = np.linalg.norm(self.means[rows], axis=1)
        longest = length + np.sqrt(np.maximum(last, 0))
        eps = float(np.finfo(np.float32).eps)
        bound: NDArray[np.float64] = 4 * eps * math.sqrt(self.space.width) * (length + longest) ** 2
        return bound

    def _look_at_everything(self, rows: NDArray[np.int64]) -> None:
        """The k nearest of all rows, one block of the gallery after the other."""
        for start in range(0, len(rows), QUERIES_AT_ONCE):
            some = rows[start : start + QUERIES_AT_ONCE]
            best: Nearest | None = None
            for block in self.engine.scan(self.where):
                near = self._nearest_of(some, block)
                best = near if best is None else Nearest.beside([best, near]).first(self.k)
            if best is not None:
                self.parts.append((some, best))

    def _nearest_of(self, rows: NDArray[np.int64], block: Block) -> Nearest:
        """The k nearest of one block; found by a product, then computed from differences."""
        query, means = self.means[rows], self.space.means(block.vectors).astype(np.float64)
        between = np.square(means).sum(axis=1) - 2 * (query @ means.T)
        between += np.square(query).sum(axis=1)[:, None]
        keys = keys_between(
            between, block.var, dim=self.space.dim, family=self.space.family, ranking=self.ranking
        )
        wide = min(self.k + SPARE, len(block.var))
        order = np.argpartition(keys, wide - 1, axis=1)[:, :wide]
        exact = ranking_keys(
            query, means[order], block.var[order], family=self.space.family, ranking=self.ranking
        )
        return Nearest(block.keys[order], exact, block.vectors[order], block.var[order]).first(
            self.k
        )
