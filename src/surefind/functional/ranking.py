"""Rankings of a gallery: vectors for an L2 index, and keys in float64."""

from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefind.embeddings import FAMILIES, Embeddings, Gaussians, check_embeddings
from surefind.functional.vmf import sphere_terms
from surefind.validation import check_choice

Array = NDArray[np.float64]

RANKINGS = ("expected", "mean")
_BLOCK = 65_536  # differences at once, so that they stay in a core's cache


def gallery_vectors(gallery: Embeddings) -> Tensor:
    r"""Vectors to index a gallery by, so that an L2 search ranks by the expected distance.

    Squared distances from `query_vectors` to these have the order of E|q - x|^2:

    Gaussians:        [mu, sqrt(D v)],          |.|^2 = E|q - x|^2 - D v_q
    von Mises-Fisher: [A mu, sqrt(1 - A^2)],    |.|^2 = 2 - 2 A_x cos(q, x)

    On the sphere E|q - x|^2 = 2 - 2 A_q A_x cos(q, x), and A_q > 0 does not change the order.

    Args:
        gallery: M embeddings.

    Returns:
        Vectors, (M, D + 1).

    Raises:
        InvalidArgument: If `gallery` is no embeddings.
    """
    check_embeddings("gallery", gallery)
    if isinstance(gallery, Gaussians):
        return torch.cat([gallery.mean, (gallery.dim * gallery.var).sqrt()[:, None]], dim=1)
    length = sphere_terms(gallery.spread, gallery.dim).length[:, None]
    beyond = (1 - length.square()).clamp(min=0).sqrt()
    return torch.cat([length * gallery.mean, beyond], dim=1)


def query_vectors(query: Embeddings) -> Tensor:
    """Vectors to search an index of `gallery_vectors` with: [mu, 0].

    Args:
        query: N embeddings.

    Returns:
        Vectors, (N, D + 1).

    Raises:
        InvalidArgument: If `query` is no embeddings.
    """
    check_embeddings("query", query)
    return torch.cat([query.mean, query.mean.new_zeros(len(query), 1)], dim=1)


def ranking_keys(
    query: Array, means: NDArray[np.floating], var: Array, *, family: str, ranking: str
) -> Array:
    r"""Keys by which the candidates of each query are ranked, in float64; lower is nearer.

        mean:                        |mu_q - mu_x|^2
        expected, Gaussians:         |mu_q - mu_x|^2 + D v_x
        expected, von Mises-Fisher:  2 - 2 A_x cos = 2 - 2 A_x + A_x |mu_q - mu_x|^2

    The query's own variance is left out: it does not change the order. Distances are computed from
    differences: |x|^2 + |y|^2 - 2 x'y has no digits left for close pairs.

    Args:
        query: Means of the queries, (Q, D).
        means: Means of the candidates, (Q, K, D).
        var: Their variances, (Q, K); 1/kappa on the sphere.
        family: Family of the embeddings.
        ranking: "expected" or "mean".

    Returns:
        Keys, (Q, K).

    Raises:
        InvalidArgument: If family or ranking is unknown.
    """
    check_choice("family", family, tuple(FAMILIES))
    check_choice("ranking", ranking, RANKINGS)
    between = np.empty(means.shape[:2])
    step = max(1, _BLOCK // max(1, prod(means.shape[1:])))
    for start in range(0, len(query), step):
        rows = slice(start, start + step)
        away = query[rows, None] - means[rows]
        np.einsum("qkd,qkd->qk", away, away, out=between[rows])
    if ranking == "mean":
        return between
    dim = means.shape[-1]
    if family == Gaussians.family:
        return np.asarray(between + dim * var)
    with np.errstate(divide="ignore"):  # var is undefined where an engine found nothing
        kappa = torch.from_numpy(1 / np.asarray(var, dtype=np.float64))
    length = np.asarray(sphere_terms(kappa, dim).length)  # A(1/v), between 0 and 1
    return np.asarray(2 - 2 * length + length * between)
