"""The nearest of a gallery by exhaustive search, block by block, in memory."""

from collections.abc import Callable
from typing import NamedTuple

import faiss
import torch
from torch import Tensor

from surefind.errors import InvalidArgument

QUERIES_AT_ONCE = 16_384


class Neighbours(NamedTuple):
    """The nearest rows of a gallery for each query, nearest first; equal distances by row."""

    rows: Tensor  # (Q, K) int64
    distance: Tensor  # (Q, K) squared


def nearest(
    query: Tensor,
    gallery: Tensor,
    k: int,
    *,
    itself: Tensor | None = None,
    progress: Callable[[int], None] | None = None,
) -> Neighbours:
    """The k nearest by squared Euclidean distance; all of the gallery if it has fewer.

    `itself` (Q,) names the gallery row that is the query, which is not its own neighbour. faiss
    finds the candidates; their distances are then taken from differences, as |x|^2 + |y|^2 - 2 x'y
    has no digits left in float32 for pairs that are close. `progress` is told how many are done.
    """
    _check(query, gallery, k)
    query, gallery = (x.detach().float().contiguous() for x in (query, gallery))
    found = min(k, len(gallery) - (itself is not None))
    rows, distances = [], []
    for start in range(0, len(query), QUERIES_AT_ONCE):
        block = query[start : start + QUERIES_AT_ONCE]
        own = None if itself is None else itself[start : start + QUERIES_AT_ONCE]
        candidates = _candidates(block, gallery, found + (itself is not None))
        between = _distances(block, gallery, candidates)
        if own is not None:
            between[candidates == own[:, None]] = torch.inf  # comes last, and is cut off
        between, order = between.sort(dim=1, stable=True)
        rows.append(candidates.gather(1, order)[:, :found])
        distances.append(between[:, :found])
        if progress is not None:
            progress(start + len(block))
    return Neighbours(torch.cat(rows), torch.cat(distances))


def _candidates(block: Tensor, gallery: Tensor, k: int) -> Tensor:
    """(n, k) gallery rows, ascending."""
    _, rows = faiss.knn(block.numpy(), gallery.numpy(), k)
    ascending: Tensor = torch.from_numpy(rows).sort(dim=1).values
    return ascending


def _distances(block: Tensor, gallery: Tensor, rows: Tensor) -> Tensor:
    distances = torch.empty(rows.shape)
    for column, chosen in enumerate(rows.T):
        torch.sum((gallery[chosen] - block).square_(), dim=1, out=distances[:, column])
    return distances


def _check(query: Tensor, gallery: Tensor, k: int) -> None:
    if query.ndim != 2 or gallery.ndim != 2 or query.shape[1] != gallery.shape[1]:
        raise InvalidArgument(
            "query, gallery",
            expected="shapes (Q, D) and (M, D)",
            got=f"{tuple(query.shape)} and {tuple(gallery.shape)}",
            fix="encode both with the same model",
        )
    if k < 1:
        raise InvalidArgument("k", expected="at least 1", got=str(k), fix="ask for a neighbour")
    if not len(query) or not len(gallery):
        raise InvalidArgument(
            "query, gallery",
            expected="at least one of each",
            got=f"{len(query)} and {len(gallery)}",
            fix="give images to ask with and images to search",
        )
