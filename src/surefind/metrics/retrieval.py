"""Retrieval metrics per query, from hits, (Q, K) bool, nearest first; and a report of embeddings.

They are not defined for queries without a match in the gallery: leave those out.
"""

from collections.abc import Sequence

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from surefind.embeddings import Embeddings
from surefind.errors import InvalidArgument
from surefind.metrics._validation import check_tensor
from surefind.validation import as_integers, check_whole

BLOCK = 2**22  # distances at once: 32 MB


def hit_at_k(hits: ArrayLike, k: int) -> Tensor:
    """Whether at least one of the k nearest matches; the mean is R@k.

    Args:
        hits: Whether each neighbour matches, (Q, K) bool, nearest first.
        k: How many of the nearest count.

    Returns:
        1 or 0 for each query, (Q,).

    >>> hit_at_k([[False, True], [False, False]], 2)
    tensor([1., 0.], dtype=torch.float64)
    """
    return _as_hits(hits, k).any(dim=1).double()


def recall_at_k(hits: ArrayLike, k: int) -> float:
    """R@k: share of queries with at least one match among the k nearest.

    `hits` and `k` are as in `hit_at_k`.

    >>> recall_at_k([[False, True], [False, False]], 2)
    0.5
    """
    return float(hit_at_k(hits, k).mean())


def precision_at_k(hits: ArrayLike, k: int) -> Tensor:
    """Matches among the k nearest, divided by k.

    The divisor is k also when the gallery holds fewer than k images.

    `hits` and `k` are as in `hit_at_k`.

    Returns:
        Precision of each query, (Q,).

    >>> precision_at_k([[True, True, False]], 4)
    tensor([0.5000], dtype=torch.float64)
    """
    return _as_hits(hits, k).sum(dim=1).double() / k


def average_precision_at_k(hits: ArrayLike, n_matches: ArrayLike, k: int) -> Tensor:
    r"""AP@k: precision at each hit, averaged over the hits that were possible; its mean is mAP@k.

        AP@k = 1 / min(n_matches, k) * sum over hits i <= k of (hits among the first i) / i

    `hits` and `k` are as in `hit_at_k`.

    Args:
        n_matches: Matches of each query in the whole gallery, found or not, (Q,).

    Returns:
        AP@k of each query, (Q,).

    Raises:
        InvalidArgument: If an argument is not valid, or a query has no match.

    >>> average_precision_at_k([[True, False, True]], [2], 3)
    tensor([0.8333], dtype=torch.float64)
    """
    near = _as_hits(hits, k)
    counts = _as_counts(n_matches, _as_hits(hits))
    return _precision_at_hits(near).sum(dim=1) / counts.clamp(max=k)


def average_precision_at_r(hits: ArrayLike, n_matches: ArrayLike) -> Tensor:
    r"""AP@R with R = n_matches of each query; its mean is MAP@R.

        AP@R = 1 / R * sum over hits i <= R of (hits among the first i) / i

    It is 1 only if all matches come before everything else (Musgrave et al. 2020).

    `hits` and `n_matches` are as in `average_precision_at_k`.

    Returns:
        AP@R of each query, (Q,).

    Raises:
        InvalidArgument: As `average_precision_at_k`, or if a query has more than K matches.

    >>> average_precision_at_r([[True, False, True]], [2])
    tensor([0.5000], dtype=torch.float64)
    """
    near = _as_hits(hits)
    counts = _as_counts(n_matches, near)
    most = int(counts.max())
    if near.shape[1] < most:
        raise InvalidArgument(
            "hits",
            expected=f"at least {most} neighbours, as many as a query has matches",
            got=str(near.shape[1]),
            fix="fetch more neighbours, or use average_precision_at_k",
        )
    counted = torch.arange(near.shape[1]) < counts[:, None]
    return _precision_at_hits(near & counted).sum(dim=1) / counts


def retrieval_report(
    embeddings: Embeddings | ArrayLike, labels: ArrayLike, *, k: int | Sequence[int] = (1, 5, 10)
) -> dict[str, float]:
    """R@k, mAP@k and MAP@R when each image is searched for among all others.

    Images are ranked by the Euclidean distance of their means, in blocks of bounded memory. Images
    that are the only one of their class have no match: they are found, but are no queries.

    Args:
        embeddings: Embeddings, or an array of vectors, (N, D).
        labels: Class of each, integers or texts, (N,).
        k: How many of the nearest count, one number or several.

    Returns:
        The metrics by name, and the number of queries.

    Raises:
        InvalidArgument: If an argument is not valid, or no two images are of one class.

    >>> retrieval_report([[0.0], [1.0], [1.4]], ["cat", "cat", "dog"], k=1)
    {'R@1': 0.5, 'mAP@1': 0.5, 'MAP@R': 0.5, 'queries': 2}
    """
    vectors = embeddings.mean if isinstance(embeddings, Embeddings) else embeddings
    points = check_tensor("embeddings", vectors, "(N, D)").detach().cpu().double()
    classes = as_integers("labels", labels, len(points), texts=True).cpu()
    depths = (k,) if isinstance(k, int) else tuple(k)
    for depth in depths:
        check_whole("k", depth)
    if not points.isfinite().all():
        raise InvalidArgument("embeddings", expected="finite numbers", got="others")
    _, of_image, sizes = classes.unique(return_inverse=True, return_counts=True)
    n_matches = sizes[of_image] - 1
    queries = n_matches.nonzero().squeeze(1)
    if not len(queries):
        raise InvalidArgument("labels", expected="two images of one class", got="none")
    fetched = min(max(*depths, int(n_matches.max())), len(points) - 1)
    square = points.square().sum(1)
    values: dict[str, list[Tensor]] = {}
    for block in queries.split(max(1, BLOCK // len(points))):
        keys = torch.addmm(square, points[block], points.T, alpha=-2)  # |q - x|^2 - |q|^2
        keys[torch.arange(len(block)), block] = torch.inf
        near = keys.topk(fetched, largest=False).indices
        hits, counts = of_image[near] == of_image[block, None], n_matches[block]
        found = {f"R@{depth}": hit_at_k(hits, depth) for depth in depths}
        found |= {f"mAP@{depth}": average_precision_at_k(hits, counts, depth) for depth in depths}
        found["MAP@R"] = average_precision_at_r(hits, counts)
        for name, each in found.items():
            values.setdefault(name, []).append(each)
    means = {name: float(torch.cat(each).mean()) for name, each in values.items()}
    return {**means, "queries": len(queries)}


def _precision_at_hits(hits: Tensor) -> Tensor:
    """(hits among the first i) / i where i is a hit, else 0."""
    rank = torch.arange(1, hits.shape[1] + 1, dtype=torch.float64)
    return hits.cumsum(1) / rank * hits


def _as_hits(hits: ArrayLike, k: int | None = None) -> Tensor:
    """The k nearest, or all."""
    if k is not None:
        check_whole("k", k)
    tensor = check_tensor("hits", hits, "(Q, K)")
    if tensor.dtype != torch.bool:
        got = str(tensor.dtype).removeprefix("torch.")
        raise InvalidArgument("hits", expected="a bool for each neighbour", got=got)
    return tensor[:, :k]


def _as_counts(n_matches: ArrayLike, hits: Tensor) -> Tensor:
    counts = as_integers("n_matches", n_matches, len(hits))
    if counts.min() < 1:
        raise InvalidArgument(
            "n_matches", expected="at least 1 for every query", got=f"{int((counts < 1).sum())} queries without a match"
        )
    if (hits.sum(dim=1) > counts).any():
        raise InvalidArgument(
            "n_matches",
            expected="at least as many as there are hits",
            got="a query with more hits than matches",
            fix="count the matches in the whole gallery, without the query itself",
        )
    return counts
