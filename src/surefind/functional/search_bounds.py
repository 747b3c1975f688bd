"""What an engine's own order proves about the other ranking, so that a search can stop."""

import numpy as np
import torch
from numpy.typing import NDArray

from surefind.choices import check_choice
from surefind.embeddings import FAMILIES, Gaussians
from surefind.functional.sphere import sphere_terms

Array = NDArray[np.float64]

RANKINGS = ("expected", "mean")


def ranking_keys(
    query: Array, means: NDArray[np.floating], var: Array, *, family: str, ranking: str
) -> Array:
    r"""What candidates (Q, K, D) are ranked by for queries (Q, D); (Q, K), lower is nearer.

        mean:                        |mu_q - mu_x|^2
        expected, Gaussians:         |mu_q - mu_x|^2 + D v_x
        expected, von Mises-Fisher:  2 - 2 A_x cos = 2 - 2 A_x + A_x |mu_q - mu_x|^2

    The query's own variance is left out: it does not change the order. `var` (Q, K) is 1/kappa on
    the sphere. From differences, in float64: |x|^2 + |y|^2 - 2 x'y has no digits for what is close.
    """
    _check(family, ranking)
    away = query[:, None] - means
    between: Array = np.einsum("qkd,qkd->qk", away, away)
    if ranking == "mean":
        return between
    dim = means.shape[-1]
    if family == Gaussians.family:
        expected: Array = between + dim * var
    else:
        length = _length(var, dim)
        expected = 2 - 2 * length + length * between
    return expected


def other_bound(
    unseen: Array, *, native: str, family: str, dim: int, var_range: tuple[float, float]
) -> Array:
    r"""The least key in the other ranking of whatever has a key of at least `unseen` in `native`.

    With v (1/kappa on the sphere) anywhere in `var_range`, and L = max(A c) or max(c):

        Gaussians, expected -> mean:   unseen - D v_high, at least 0
        Gaussians, mean -> expected:   unseen + D v_low
        sphere, expected -> mean:      A c <= w = 1 - unseen/2, so c <= w / A_low where w > 0, and
                                       c <= w / A_high where w < 0
        sphere, mean -> expected:      c <= w, so A c <= A_high w where w > 0, else A_low w

    A falls with v. Infinite where nothing is unseen: where `unseen` is, or the range is empty.
    """
    _check(family, native)
    low, high = var_range
    unseen = np.asarray(unseen, dtype=np.float64)
    if low > high:
        return np.full_like(unseen, np.inf)
    if family == Gaussians.family:
        if native == "expected":
            return np.maximum(unseen - dim * high, 0)
        return np.maximum(unseen, 0) + dim * low
    longest, shortest = _length(np.array([low, high]), dim)
    most = np.clip(1 - unseen / 2, -1, 1)
    if native == "expected":
        cos = np.clip(most / np.where(most > 0, shortest, longest), -1, 1)
        bound = 2 - 2 * cos
    else:
        bound = 2 - 2 * most * np.where(most > 0, longest, shortest)
    return np.where(np.isposinf(unseen), np.inf, bound)


def _length(var: Array, dim: int) -> Array:
    """A(1/v), between 0 and 1."""
    with np.errstate(divide="ignore"):  # where an engine found nothing, v means nothing
        kappa = torch.from_numpy(1 / np.asarray(var, dtype=np.float64))
    return np.asarray(sphere_terms(kappa, dim).length)


def _check(family: str, ranking: str) -> None:
    check_choice("family", family, tuple(FAMILIES))
    check_choice("ranking", ranking, RANKINGS)
