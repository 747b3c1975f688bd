"""The two orders of a gallery: by the distance of means, and by the expected distance."""

from collections.abc import Callable

import torch

from surefind.embeddings import Embeddings, Gaussians
from surefind.engines.exact import Neighbours, nearest
from surefind.functional import asking_vectors, stored_vectors
from surefind.functional.sphere import sphere_terms
from surefind.images.matches import Rows

RANKINGS = ("means", "expected")


def neighbours(
    ranking: str,
    query: Embeddings,
    gallery: Embeddings,
    k: int,
    *,
    itself: Rows | None = None,
    progress: Callable[[int], None] | None = None,
) -> Neighbours:
    """The k nearest in this order, with |mu_q - mu_x|^2 or E|q - x|^2 as distance."""
    own = None if itself is None else torch.from_numpy(itself)
    if ranking == "means":
        return nearest(query.mean, gallery.mean, k, itself=own, progress=progress)
    asking, stored = asking_vectors(query), stored_vectors(gallery)
    rows, distance = nearest(asking, stored, k, itself=own, progress=progress)
    if isinstance(query, Gaussians):
        return Neighbours(rows, distance + query.dim * query.var.float()[:, None])
    length = sphere_terms(query.spread, query.dim).length.float()[:, None]
    return Neighbours(rows, 2 - 2 * length + length * distance)
