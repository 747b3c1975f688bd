"""Metrics of the order of a signal: does it separate wrong from right, or foreign from own queries (OOD)?

`signal` is higher for what should be detected: an uncertainty, or cov[q - x] for foreign queries.
Only its order counts. `weights` are resample counts, (B, Q); a resample without one of the two
kinds has the value nan.
"""

from typing import NamedTuple, overload

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from surefind.errors import InvalidArgument
from surefind.metrics._validation import as_flags, as_numbers, as_result, as_rows, order, steps
from surefind.validation import as_integers, check_number


@overload
def auroc(signal: ArrayLike, positive: ArrayLike, *, weights: None = None) -> float: ...
@overload
def auroc(signal: ArrayLike, positive: ArrayLike, *, weights: ArrayLike) -> Tensor: ...
def auroc(signal: ArrayLike, positive: ArrayLike, *, weights: ArrayLike | None = None) -> float | Tensor:
    r"""Chance that a positive has a higher signal than a negative; a tie counts one half.

        AUROC = sum_g (F_g - F_(g-1)) (T_g + T_(g-1)) / 2 / (T F)

    T_g, F_g: positives and negatives at or above the g-th highest distinct signal.

    Args:
        signal: Higher for what should be detected, (Q,).
        positive: Whether it should be, (Q,) bool.
        weights: Resample counts, (B, Q).

    Returns:
        AUROC; with `weights` one per resample, (B,).

    Raises:
        InvalidArgument: If an argument is not valid, or all queries are of one kind.

    >>> auroc(torch.tensor([0.9, 0.3, 0.3]), torch.tensor([True, True, False]))
    0.75
    """
    found = _found(signal, positive, weights)
    corner = found.true[:, 0] * found.false[:, 0] / 2
    area = torch.trapezoid(found.true, found.false, dim=1) + corner
    return as_result(area.double() / (found.positives * found.negatives), weights)


@overload
def auroc_within(signal: ArrayLike, positive: ArrayLike, groups: ArrayLike, *, weights: None = None) -> float: ...
@overload
def auroc_within(signal: ArrayLike, positive: ArrayLike, groups: ArrayLike, *, weights: ArrayLike) -> Tensor: ...
def auroc_within(
    signal: ArrayLike, positive: ArrayLike, groups: ArrayLike, *, weights: ArrayLike | None = None
) -> float | Tensor:
    """AUROC of each group on its own, averaged over the groups that hold both kinds.

    For cross-fitted signals, with the folds as groups: each fold's values come from a fit of its
    own, and comparing across folds measures how those differ, not how well a fit ranks (Forman and
    Scholz 2010). nan where no group holds both kinds.

    `signal`, `positive` and `weights` are as in `auroc`.

    Args:
        groups: Whole number of the group of each query, (Q,).

    Returns:
        Mean AUROC; with `weights` one per resample, (B,).

    >>> signal, positive = torch.tensor([1.0, 2.0, 7.0, 8.0]), torch.tensor([False, True] * 2)
    >>> auroc_within(signal, positive, torch.tensor([0, 0, 1, 1])), auroc(signal, positive)
    (1.0, 0.75)
    """
    values = as_numbers("signal", signal)
    flags = as_flags("positive", positive, len(values))
    numbers = as_integers("groups", groups, len(values), texts=True)
    rows = as_rows(weights, len(values))
    each = [
        auroc(values[inside], flags[inside], weights=rows[:, inside])
        for inside in (numbers == group for group in numbers.unique())
    ]
    return as_result(torch.stack(each).nanmean(dim=0), weights)


@overload
def aupr(signal: ArrayLike, positive: ArrayLike, *, weights: None = None) -> float: ...
@overload
def aupr(signal: ArrayLike, positive: ArrayLike, *, weights: ArrayLike) -> Tensor: ...
def aupr(signal: ArrayLike, positive: ArrayLike, *, weights: ArrayLike | None = None) -> float | Tensor:
    r"""Precision averaged over recall, one step for each distinct signal.

        AUPR = sum_g (T_g - T_(g-1)) / T * T_g / (T_g + F_g)

    A signal that knows nothing has the share of positives, not one half.

    `signal`, `positive` and `weights` are as in `auroc`.

    Returns:
        AUPR; with `weights` one per resample, (B,).

    Raises:
        InvalidArgument: As `auroc`.

    >>> round(aupr(torch.tensor([0.9, 0.5, 0.3]), torch.tensor([True, False, True])), 4)
    0.8333
    """
    found = _found(signal, positive, weights)
    one_kind = (found.positives == 0) | (found.negatives == 0)
    precision = found.false.add_(found.true).reciprocal_().mul_(found.true)
    precision.nan_to_num_(0.0)  # 0 / 0 above the first query that the resample holds
    area = precision.mul_(steps(found.true)).sum(1).double()
    return as_result((area / found.positives).masked_fill(one_kind, torch.nan), weights)


@overload
def fpr_at_tpr(signal: ArrayLike, positive: ArrayLike, *, tpr: float = 0.95, weights: None = None) -> float: ...
@overload
def fpr_at_tpr(signal: ArrayLike, positive: ArrayLike, *, tpr: float = 0.95, weights: ArrayLike) -> Tensor: ...
def fpr_at_tpr(
    signal: ArrayLike, positive: ArrayLike, *, tpr: float = 0.95, weights: ArrayLike | None = None
) -> float | Tensor:
    """Share of negatives flagged by the strictest threshold that flags `tpr` of the positives.

        min F_g / F  over all g with T_g / T >= tpr

    `signal`, `positive` and `weights` are as in `auroc`.

    Args:
        tpr: Share of positives to flag.

    Returns:
        The share; with `weights` one per resample, (B,).

    Raises:
        InvalidArgument: As `auroc`.

    >>> fpr_at_tpr(torch.tensor([0.9, 0.5, 0.3, 0.1]), torch.tensor([True, False, True, False]))
    0.5
    """
    check_number("tpr", tpr, "a number above 0 and at most 1", lambda x: 0 < x <= 1)
    found = _found(signal, positive, weights)
    share = found.true / found.positives[:, None]  # in float64, where 19 / 20 is 0.95
    first = (share < tpr).sum(1, keepdim=True).clamp(max=share.shape[1] - 1)
    rate = found.false.gather(1, first).squeeze(1) / found.negatives
    return as_result(rate.masked_fill(found.positives == 0, torch.nan), weights)


class _Found(NamedTuple):
    """What each threshold finds, from the highest distinct signal to the lowest."""

    true: Tensor  # (B, G) weight of positives at or above the threshold
    false: Tensor  # (B, G) weight of negatives

    @property
    def positives(self) -> Tensor:
        return self.true[:, -1].double()

    @property
    def negatives(self) -> Tensor:
        return self.false[:, -1].double()


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


def _found(signal: ArrayLike, positive: ArrayLike, weights: ArrayLike | None) -> _Found:
    values = as_numbers("signal", signal)
    flags = as_flags("positive", positive, len(values))
    if weights is None and (flags.all() or not flags.any()):
        raise InvalidArgument(
            "positive", expected="both kinds of queries", got="only positives" if flags.all() else "only negatives"
        )
    from_highest = order(-values)
    arranged = from_highest.arrange(as_rows(weights, len(values)))
    both = from_highest.totals(arranged)
    true = from_highest.totals(arranged.mul_(flags[from_highest.queries]))
    return _Found(true, both.sub_(true))


def _centred_ranks(values: Tensor, rows: Tensor) -> Tensor:
    """Rank of each query within each resample, less the mean rank, (B, Q)."""
    ranking = order(values)
    upto = ranking.totals(ranking.arrange(rows))
    middle = upto.sub(steps(upto), alpha=0.5).sub_(upto[:, -1:] / 2)
    return middle.index_select(1, ranking.place())
