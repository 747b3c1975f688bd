"""Rankings of a gallery, on arrays in float64; on the sphere with torch, which is loaded for that."""

from math import prod

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import Gaussians

Array = NDArray[np.float64]

RANKINGS = ("expected", "mean")
_BLOCK = 65_536  # differences at once, so that they stay in a core's cache


def candidate_distances(query: Array, means: NDArray[np.floating]) -> Array:
    r"""|mu_q - mu_x|^2 of each query and its candidates, in float64.

    Computed from differences: |x|^2 + |y|^2 - 2 x'y has no digits left for close pairs.

    Args:
        query: Means of the queries, (Q, D).
        means: Means of the candidates, (Q, K, D).

    Returns:
        Squared distances, (Q, K).
    """
    between = np.empty(means.shape[:2])
    step = max(1, _BLOCK // max(1, prod(means.shape[1:])))
    for start in range(0, len(query), step):
        rows = slice(start, start + step)
        away = query[rows, None] - means[rows]
        np.einsum("qkd,qkd->qk", away, away, out=between[rows])
    return between


def ranking_keys(between: Array, var: Array, *, dim: int, family: str, ranking: str) -> Array:
    r"""Keys by which the candidates of each query are ranked; lower is nearer.

        mean:                        |mu_q - mu_x|^2
        expected, Gaussians:         |mu_q - mu_x|^2 + D v_x
        expected, von Mises-Fisher:  2 - 2 A_x cos = 2 - 2 A_x + A_x |mu_q - mu_x|^2

    The query's own variance is left out: it does not change the order.

    Args:
        between: Squared distances of the means, (Q, K).
        var: Variances of the candidates, (Q, K); 1/kappa on the sphere.
        dim: Number of dimensions D.
        family: Family of the embeddings.
        ranking: "expected" or "mean".

    Returns:
        Keys, (Q, K).
    """
    if ranking == "mean":
        return between
    if family == Gaussians.family:
        return np.asarray(between + dim * var)
    import torch

    from surefind.functional.vmf import sphere_terms

    with np.errstate(divide="ignore"):  # var is undefined where an engine found nothing
        kappa = torch.from_numpy(1 / np.asarray(var, dtype=np.float64))
    length = np.asarray(sphere_terms(kappa, dim).length)  # A(1/v), between 0 and 1
    return np.asarray(2 - 2 * length + length * between)


def hit_distances(between: Array, query_var: Array, var: Array, *, dim: int, family: str) -> tuple[Array, Array]:
    """Mean and standard deviation of |q - x|^2 for each query's hits, in float64.

    Args:
        between: Squared distances of the means, (N, K).
        query_var: Variances of the queries, (N,); 1/kappa on the sphere.
        var: Variances of the hits, (N, K).
        dim: Number of dimensions D.
        family: Family of the embeddings.

    Returns:
        `expected_distance` and the root of `distance_variance` of these pairs, (N, K) each.
    """
    if family == Gaussians.family:
        total = query_var[:, None] + var
        return between + dim * total, np.sqrt(2 * dim * total * total + 4 * total * between)
    import torch

    from surefind.functional.vmf import inner_product

    kappa, other = (torch.from_numpy(1 / its) for its in (query_var[:, None], var))
    inner = inner_product(kappa, other, torch.from_numpy(between), dim)
    return 2 - 2 * inner.mean.numpy(), 2 * inner.var.sqrt().numpy()
