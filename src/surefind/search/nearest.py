"""The nearest rows of many queries, column by column."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.engines.engine import Keys


class Nearest(NamedTuple):
    """Rows for each query, nearest first; where there are fewer than K, `ranked_by` is infinite."""

    keys: Keys  # (Q, K), the engine's names of the rows
    ranked_by: NDArray[np.float64]  # (Q, K), without the query's own variance; ascending
    vectors: NDArray[np.float32]  # (Q, K, width)
    var: NDArray[np.float64]  # (Q, K)

    @property
    def found(self) -> NDArray[np.int64]:
        """How many rows there are for each query, (Q,)."""
        return np.asarray(np.isfinite(self.ranked_by).sum(axis=1))

    def at(self, places: Any) -> "Nearest":
        """The same part of every column, by whatever numpy can index with."""
        keys, ranked_by, vectors, var = (column[places] for column in self)
        return Nearest(keys, ranked_by, vectors, var)

    def first(self, k: int) -> "Nearest":
        """Sorted, and no more than k."""
        order = np.argsort(self.ranked_by, axis=1, kind="stable")[:, :k]
        line = np.arange(len(order))[:, None]
        return self.at((line, order))

    @staticmethod
    def nothing(width: int) -> "Nearest":
        """The answer to no queries."""
        empty = np.empty((0, 0))
        return Nearest(empty.astype(np.int64), empty, np.empty((0, 0, width), np.float32), empty)

    @staticmethod
    def below(parts: Sequence["Nearest"]) -> "Nearest":
        """The queries of one part after those of the other."""
        if len(parts) == 1:
            return parts[0]
        width = max(part.keys.shape[1] for part in parts)
        return _join([part._widened(width) for part in parts], axis=0)

    @staticmethod
    def beside(parts: Sequence["Nearest"]) -> "Nearest":
        """More rows for the same queries."""
        return _join(parts, axis=1)

    def _widened(self, width: int) -> "Nearest":
        missing = width - self.keys.shape[1]
        if not missing:
            return self
        around = [(0, 0), (0, missing)]
        return Nearest(
            np.pad(self.keys, around),
            np.pad(self.ranked_by, around, constant_values=np.inf),
            np.pad(self.vectors, [*around, (0, 0)]),
            np.pad(self.var, around),
        )


def _join(parts: Sequence[Nearest], *, axis: int) -> Nearest:
    keys, ranked_by, vectors, var = (
        np.concatenate(columns, axis=axis) for columns in zip(*parts, strict=True)
    )
    return Nearest(keys, ranked_by, vectors, var)
