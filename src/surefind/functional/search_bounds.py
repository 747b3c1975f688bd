"""What an engine's own order proves about the other ranking, so that a search can stop."""

from math import prod

import numpy as np
import torch
from numpy.typing import NDArray

from surefind.choices import check_choice
from surefind.embeddings import FAMILIES, Gaussians
from surefind.functional.sphere import sphere_terms

Array = NDArray[np.float64]

RANKINGS = ("expected", "mean")
_NUMBERS_AT_ONCE = 65_536  # of differences, so that they stay in a core's cache
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


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
    between = np.empty(means.shape[:2])
    step = max(1, _NUMBERS_AT_ONCE // max(1, prod(means.shape[1:])))
    for start in range(0, len(query), step):
        rows = slice(start, start + step)
        away = query[rows, None] - means[rows]
        np.einsum("qkd,qkd->qk", away, away, out=between[rows])
    return keys_between(between, var, dim=means.shape[-1], family=family, ranking=ranking)


def keys_between(between: Array, var: Array, *, dim: int, family: str, ranking: str) -> Array:
    """`ranking_keys` from squared distances of means; the two arguments broadcast."""
    _check(family, ranking)
    if ranking == "mean":
        return between
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

    With v (1/kappa on the sphere) anywhere in `var_range`, w = 1 - unseen/2, and A falling with v:

        Gaussians, expected to mean:  unseen - D v_high, at least 0
        Gaussians, mean to expected:  unseen + D v_low
        sphere, expected to mean:     2 - 2 c,    A c <= w:  c = w / A_low, where w < 0  w / A_high
        sphere, mean to expected:     2 - 2 A c,    c <= w:  A c = w A_high, where w < 0  w A_low

    Infinite where nothing is unseen: where `unseen` is, or the range is empty. Lower than these by
    what rounds off in float64.
    """
    _check(family, native)
    low, high = var_range
    nothing = np.isposinf(unseen) | (low > high)
    least = np.where(nothing, 0.0, unseen)
    if nothing.all():
        bound = least
    elif family == Gaussians.family:
        least = least - _ROUNDING * (np.abs(least) + dim * high)
        bound = np.maximum(least - dim * high if native == "expected" else least, 0)
        bound = bound + (dim * low if native == "mean" else 0)
    else:
        least = least - _ROUNDING * (np.abs(least) + 2)
        bound = _sphere_bound(least, native, *_length(np.array([high, low]), dim))
    return np.where(nothing, np.inf, bound)


def _sphere_bound(unseen: Array, native: str, shortest: float, longest: float) -> Array:
    most = np.clip(1 - unseen / 2, -1, 1)
    if native == "expected":
        return 2 - 2 * np.clip(most / np.where(most > 0, shortest, longest), -1, 1)
    return 2 - 2 * most * np.where(most > 0, longest, shortest)


def _length(var: Array, dim: int) -> Array:
    """A(1/v), between 0 and 1."""
    with np.errstate(divide="ignore"):  # where an engine found nothing, v means nothing
        kappa = torch.from_numpy(1 / np.asarray(var, dtype=np.float64))
    return np.asarray(sphere_terms(kappa, dim).length)


def _check(family: str, ranking: str) -> None:
    check_choice("family", family, tuple(FAMILIES))
    check_choice("ranking", ranking, RANKINGS)
