"""Rank correlation of uncertainty and error."""

from math import nan, sqrt
from typing import overload

from numpy.typing import ArrayLike
from torch import Tensor

from surefind.metrics._validation import as_numbers, as_result, as_rows, order, steps


@overload
def spearman(x: ArrayLike, y: ArrayLike, *, weights: None = None) -> float: ...
@overload
def spearman(x: ArrayLike, y: ArrayLike, *, weights: ArrayLike) -> Tensor: ...
def spearman(x: ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None) -> float | Tensor:
    r"""Spearman's rho: the correlation of ranks; the tied share the mean of their ranks.

        rho = sum r_i s_i / sqrt(sum r_i^2 sum s_i^2),   r, s: ranks of x and y less their mean

    Args:
        x: One value per query, (Q,).
        y: One value per query, (Q,).
        weights: Resample counts, (B, Q).

    Returns:
        rho, nan if x or y is constant; with `weights` one per resample, (B,).

    >>> import torch
    >>> spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 4.0, 9.0]))
    1.0
    """
    first = as_numbers("x", x)
    second = as_numbers("y", y, len(first))
    rows = as_rows(weights, len(first))
    r, s = _centred_ranks(first, rows), _centred_ranks(second, rows)
    weighted = rows * r
    across = (weighted * s).sum(1)
    along_r, along_s = weighted.mul_(r).sum(1), s.square_().mul_(rows).sum(1)
    rho = across.double() / (along_r.double() * along_s.double()).sqrt()
    return as_result(rho.clamp_(-1, 1), weights)


def kendall(x: ArrayLike, y: ArrayLike) -> float:
    r"""Kendall's tau-b: pairs in the same order less pairs in opposite order, ties allowed for.

        tau = (n_same - n_opposite) / sqrt((n_0 - n_x) (n_0 - n_y))

    n_0: all pairs; n_x, n_y: pairs tied in x, in y. In O(n log^2 n); too slow to resample, so it
    takes no weights.

    Args:
        x: One value per query, (Q,).
        y: One value per query, (Q,).

    Returns:
        tau, nan if x or y is constant.

    >>> import torch
    >>> round(kendall(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0])), 4)
    0.3333
    """
    first = as_numbers("x", x)
    second = as_numbers("y", y, len(first))
    r, s = order(first).place(), order(second).place()
    by_x_then_y = (r * len(s) + s).sort().values
    pairs = len(r) * (len(r) - 1) // 2
    tied_x, tied_y, tied_both = _tied_pairs(r), _tied_pairs(s), _tied_pairs(by_x_then_y)
    opposite = _inversions(by_x_then_y % len(s))
    difference = pairs - tied_x - tied_y + tied_both - 2 * opposite
    scale = sqrt(pairs - tied_x) * sqrt(pairs - tied_y)
    return difference / scale if scale else nan


def _centred_ranks(values: Tensor, rows: Tensor) -> Tensor:
    """Rank of each query within each resample, less the mean rank, (B, Q)."""
    ranking = order(values)
    upto = ranking.totals(ranking.arrange(rows))
    middle = upto.sub(steps(upto), alpha=0.5).sub_(upto[:, -1:] / 2)
    return middle.index_select(1, ranking.place())


def _tied_pairs(values: Tensor) -> int:
    counts = values.unique(return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def _inversions(ranks: Tensor) -> int:
    """Pairs that stand in falling order, counted bit by bit.

    A pair i < j with ranks_i > ranks_j has a highest bit in which the two differ: there i has a 1
    and j a 0, and all bits above are equal. So for each bit, among ranks with the same bits above
    it, count the ones that stand before each zero.
    """
    total = 0
    for bit in range(int(ranks.max()).bit_length()):
        above, index = (ranks >> (bit + 1)).sort(stable=True)
        ones = (ranks[index] >> bit) & 1
        seen = ones.cumsum(0)
        _, group, size = above.unique_consecutive(return_inverse=True, return_counts=True)
        start = size.cumsum(0) - size
        earlier = seen[start] - ones[start]  # ones before the group
        total += int(((seen - earlier[group]) * (1 - ones)).sum())
    return total
