"""Retrieval metrics per query; `hits` is (Q, K) bool, nearest first.

They are not defined for queries without a match in the gallery: leave those out.
"""

import torch
from torch import Tensor

from surefind.errors import InvalidArgument
from surefind.metrics._validation import check_tensor
from surefind.validation import check_whole


def hit_at_k(hits: Tensor, k: int) -> Tensor:
    """Whether at least one of the k nearest matches.

    Args:
        hits: Whether each neighbour matches, (Q, K) bool, nearest first.
        k: How many of the nearest count.

    Returns:
        1 or 0 for each query, (Q,).

    Raises:
        InvalidArgument: If `hits` or `k` is not valid.

    >>> hit_at_k(torch.tensor([[False, True], [False, False]]), 2)
    tensor([1., 0.], dtype=torch.float64)
    """
    _check_hits(hits, k)
    return hits[:, :k].any(dim=1).double()


def recall_at_k(hits: Tensor, k: int) -> float:
    """R@k: share of queries with at least one match among the k nearest.

    Args:
        hits: Whether each neighbour matches, (Q, K) bool, nearest first.
        k: How many of the nearest count.

    Returns:
        The share.

    Raises:
        InvalidArgument: If `hits` or `k` is not valid.

    >>> recall_at_k(torch.tensor([[False, True], [False, False]]), 2)
    0.5
    """
    return float(hit_at_k(hits, k).mean())


def precision_at_k(hits: Tensor, k: int) -> Tensor:
    """Matches among the k nearest, divided by k.

    The divisor is k also when the gallery holds fewer than k images.

    Args:
        hits: Whether each neighbour matches, (Q, K) bool, nearest first.
        k: How many of the nearest count.

    Returns:
        Precision of each query, (Q,).

    Raises:
        InvalidArgument: If `hits` or `k` is not valid.

    >>> precision_at_k(torch.tensor([[True, True, False]]), 4)
    tensor([0.5000], dtype=torch.float64)
    """
    _check_hits(hits, k)
    return hits[:, :k].sum(dim=1).double() / k


def average_precision_at_k(hits: Tensor, n_matches: Tensor, k: int) -> Tensor:
    r"""AP@k: precision at each hit, averaged over the hits that were possible.

        AP@k = 1 / min(n_matches, k) * sum over hits i <= k of (hits among the first i) / i

    Args:
        hits: Whether each neighbour matches, (Q, K) bool, nearest first.
        n_matches: Matches of each query in the whole gallery, found or not, (Q,).
        k: How many of the nearest count.

    Returns:
        AP@k of each query, (Q,).

    Raises:
        InvalidArgument: If an argument is not valid, or a query has no match.

    >>> average_precision_at_k(torch.tensor([[True, False, True]]), torch.tensor([2]), 3)
    tensor([0.8333], dtype=torch.float64)
    """
    _check_hits(hits, k)
    _check_matches(n_matches, hits)
    return _precision_at_hits(hits[:, :k]).sum(dim=1) / n_matches.clamp(max=k)


def average_precision_at_r(hits: Tensor, n_matches: Tensor) -> Tensor:
    r"""AP@R with R = n_matches of each query; its mean is MAP@R.

        AP@R = 1 / R * sum over hits i <= R of (hits among the first i) / i

    It is 1 only if all matches come before everything else (Musgrave et al. 2020).

    Args:
        hits: Whether each neighbour matches, (Q, K) bool, nearest first.
        n_matches: Matches of each query in the whole gallery, found or not, (Q,).

    Returns:
        AP@R of each query, (Q,).

    Raises:
        InvalidArgument: As `average_precision_at_k`, or if a query has more than K matches.

    >>> average_precision_at_r(torch.tensor([[True, False, True]]), torch.tensor([2]))
    tensor([0.5000], dtype=torch.float64)
    """
    _check_hits(hits)
    _check_matches(n_matches, hits)
    most = int(n_matches.max())
    if hits.shape[1] < most:
        raise InvalidArgument(
            "hits",
            expected=f"at least {most} neighbours, as many as a query has matches",
            got=str(hits.shape[1]),
            fix="fetch more neighbours, or use average_precision_at_k",
        )
    counted = torch.arange(hits.shape[1]) < n_matches[:, None]
    return _precision_at_hits(hits & counted).sum(dim=1) / n_matches


def mean_average_precision(hits: Tensor, n_matches: Tensor, k: int) -> float:
    """mAP@k: the mean of AP@k over queries.

    Args:
        hits: Whether each neighbour matches, (Q, K) bool, nearest first.
        n_matches: Matches of each query in the whole gallery, found or not, (Q,).
        k: How many of the nearest count.

    Returns:
        The mean.

    Raises:
        InvalidArgument: If an argument is not valid, or a query has no match.

    >>> mean_average_precision(torch.tensor([[True], [False]]), torch.tensor([3, 1]), 1)
    0.5
    """
    return float(average_precision_at_k(hits, n_matches, k).mean())


def _precision_at_hits(hits: Tensor) -> Tensor:
    """(hits among the first i) / i where i is a hit, else 0."""
    rank = torch.arange(1, hits.shape[1] + 1, dtype=torch.float64)
    return hits.cumsum(1) / rank * hits


def _check_hits(hits: object, k: int = 1) -> None:
    check_whole("k", k)
    if check_tensor("hits", hits, "(Q, K)").dtype != torch.bool:
        raise InvalidArgument(
            "hits",
            expected="a bool for each neighbour",
            got=str(getattr(hits, "dtype", "")).removeprefix("torch."),
        )


def _check_matches(n_matches: object, hits: Tensor) -> None:
    counts = check_tensor("n_matches", n_matches, "(Q,)")
    if counts.is_floating_point() or counts.dtype == torch.bool or len(counts) != len(hits):
        raise InvalidArgument(
            "n_matches",
            expected=f"{len(hits)} whole numbers, one per query",
            got=f"{len(counts)} of {str(counts.dtype).removeprefix('torch.')}",
        )
    if counts.min() < 1:
        raise InvalidArgument(
            "n_matches",
            expected="at least 1 for every query",
            got=f"{int((counts < 1).sum())} queries without a match",
        )
    if (hits.sum(dim=1) > counts).any():
        raise InvalidArgument(
            "n_matches",
            expected="at least as many as there are hits",
            got="a query with more hits than matches",
            fix="count the matches in the whole gallery, without the query itself",
        )
