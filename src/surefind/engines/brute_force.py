"""Exhaustive nearest-neighbour search in memory."""

from typing import NamedTuple

import faiss
import torch
from torch import Tensor

QUERIES_AT_ONCE = 16_384


class Neighbours(NamedTuple):
    """Nearest rows of a gallery for each query; ties in the order of rows."""

    rows: Tensor  # (Q, K) int64
    distance: Tensor  # (Q, K) squared


def nearest(query: Tensor, gallery: Tensor, k: int, *, itself: Tensor | None = None) -> Neighbours:
    """Return the k nearest by squared Euclidean distance; all of the gallery if it has fewer.

    `itself` (Q,) is the gallery row of each query, which is left out. faiss finds the candidates;
    their distances are computed from differences, as |x|^2 + |y|^2 - 2 x'y has no digits left in
    float32 for close pairs.
    """
    query, gallery = (x.detach().float().contiguous() for x in (query, gallery))
    found = min(k, len(gallery) - (itself is not None))
    rows, distances = [], []
    for start in range(0, len(query), QUERIES_AT_ONCE):
        block = query[start : start + QUERIES_AT_ONCE]
        own = None if itself is None else itself[start : start + QUERIES_AT_ONCE]
        _, near = faiss.knn(block.numpy(), gallery.numpy(), found + (itself is not None))
        candidates = torch.from_numpy(near).sort(dim=1).values
        between = torch.empty(candidates.shape)
        for column, chosen in enumerate(candidates.T):
            torch.sum((gallery[chosen] - block).square_(), dim=1, out=between[:, column])
        if own is not None:
            between[candidates == own[:, None]] = torch.inf  # comes last, and is cut off
        between, order = between.sort(dim=1, stable=True)
        rows.append(candidates.gather(1, order)[:, :found])
        distances.append(between[:, :found])
    return Neighbours(torch.cat(rows), torch.cat(distances))
