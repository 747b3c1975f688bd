"""Queries that are images of the index themselves: such a query is not its own hit."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from surefind.engines.engine import Engine, Rows
from surefind.errors import SurefindError
from surefind.search.nearest import Nearest


class UnknownItem(SurefindError):
    """An id that no image of the index has."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no image of the index has the id {name[:80]!r}",
            fix="use the id of a hit; the image may have been removed since",
        )
        self.name = name


def row_of(engine: Engine, name: str) -> Rows:
    """The one row with that id."""
    rows = engine.find([name])
    if not len(rows):
        raise UnknownItem(name)
    return rows


def names_of(engine: Engine, near: Nearest) -> NDArray[np.object_]:
    """The ids of rows that were found, (Q, K); "" where there is none."""
    found = np.isfinite(near.ranked_by)
    keys, place = np.unique(near.keys[found], return_inverse=True)
    names = np.full(near.keys.shape, "", dtype=object)
    names[found] = np.array(engine.rows(keys).ids, dtype=object)[place]
    return names


def others(near: Nearest, names: NDArray[np.object_], *, itself: Sequence[str], k: int) -> Nearest:
    """The k nearest besides the query, of k + 1; `itself` is its id, "" if it is not in the index.

    Where the query is not among them, k others are nearer, or as near.
    """
    own = names == np.array(itself, dtype=object)[:, None]
    return near._replace(ranked_by=np.where(own, np.inf, near.ranked_by)).first(k)
