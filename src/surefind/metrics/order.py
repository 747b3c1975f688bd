"""Sort once, then add up along the order in every resample; equal values share one place."""

from typing import NamedTuple

import torch
from torch import Tensor


class Order(NamedTuple):
    """Queries from the smallest value to the largest; a run is a stretch of equal values."""

    queries: Tensor  # (Q,) the queries in order
    last: Tensor | None  # (G,) where in the order each run ends; None: no two are equal

    def arrange(self, rows: Tensor) -> Tensor:
        """Columns of (B, Q) in this order."""
        return rows.index_select(1, self.queries)

    def totals(self, arranged: Tensor) -> Tensor:
        """Sum up to and including each run, (B, G)."""
        sums = arranged.cumsum(1)
        return sums if self.last is None else sums.index_select(1, self.last)

    def place(self) -> Tensor:
        """The run of each query, (Q,), numbered from the smallest value."""
        runs = len(self.queries) if self.last is None else len(self.last)
        last = torch.arange(runs) if self.last is None else self.last
        place = torch.empty_like(self.queries)
        place[self.queries] = torch.searchsorted(last, torch.arange(len(self.queries)))
        return place


def order(values: Tensor) -> Order:
    """Who comes after whom, and who stands beside whom.

    >>> order(torch.tensor([3.0, 1.0, 3.0])).place()
    tensor([1, 0, 1])
    """
    ordered, index = values.sort(stable=True)
    ends = torch.ones(len(values), dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=ends[:-1])
    return Order(index, None if ends.all() else ends.nonzero().squeeze(1))


def steps(totals: Tensor) -> Tensor:
    """What each run adds to the running totals, (B, G): totals_g - totals_(g-1)."""
    added = totals.clone()
    added[:, 1:] -= totals[:, :-1]
    return added
