"""Which of a query's hits is truly the nearest, as distances between random points go."""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from surefind.embeddings import Embeddings, Gaussians
from surefind.errors import InvalidArgument
from surefind.functional.hits import blocks_of_hits, check_hits
from surefind.functional.sphere import sphere_terms
from surefind.functional.sphere_moments import InnerProduct, Partner

POINTS = 2048  # of the integral over K dimensions; it is then right to a few thousandths
MOST_HITS = 1000  # to be compared with each other: memory grows with their square
_DRAWS_AT_ONCE = 300_000  # numbers, so that they stay in a core's cache
_ALIKE = 1e-12  # differences of this share are rounding


class _Race(NamedTuple):
    """Distances t_i = mean_i + s_i + sqrt(own_i) e_i; e is standard normal, s normal, about 0.

    What all hits of a query have in common is left out: it does not change who is nearest.
    """

    mean: Tensor  # (n, K)
    shared: Tensor  # (n, K, K), the covariance of s: what they owe to the query that they share
    own: Tensor  # (n, K), the variance that is each hit's alone


def nearest_probability(query: Embeddings, gallery: Embeddings, *, per_query: int) -> Tensor:
    r"""P(hit i is the nearest of its query's K hits), (N, K) float64; rows sum to 1.

    Rows i K to (i + 1) K of `gallery` are the K = `per_query` hits of query i. The distances
    t_i = |q - x_i|^2 share q, so they are correlated:

        Gaussians:        Cov(t_i, t_j) = 2 D v_q^2 + 4 v_q (mu_i - mu_q)'(mu_j - mu_q)
        von Mises-Fisher: Cov(t_i, t_j) = 4 A_i A_j mu_i' S_q mu_j,   S_q the covariance of q

    They are taken as jointly normal, as `clt` takes tau, and P(t_i is least) is integrated with a
    fixed Sobol sequence. What a hit has of its own is integrated exactly,
    P(t_i is least | the others) = Phi((min_j t_j - E[t_i | q]) / std), which makes the rest smooth.
    Hits that cannot be told apart get equal shares.
    """
    query, gallery = check_hits(query, gallery, per_query)
    if per_query > MOST_HITS:
        raise InvalidArgument(
            "per_query",
            expected=f"at most {MOST_HITS:,} hits",
            got=f"{per_query:,}",
            fix="compare only the nearest of them",
        )
    race_of = _gaussian_race if isinstance(query, Gaussians) else _sphere_race
    at_once = max(1, _DRAWS_AT_ONCE // (per_query * POINTS))
    shares = [query.mean.new_empty(0, per_query)]
    for rows, hits in blocks_of_hits(len(query), per_query, width=max(query.dim, per_query)):
        race = race_of(query[rows], gallery[hits], per_query)
        parts = zip(*(part.split(at_once) for part in race), strict=True)
        shares += [_win_shares(_Race(*part)) for part in parts]
    return torch.cat(shares)


def _gaussian_race(query: Embeddings, hits: Embeddings, k: int) -> _Race:
    q, x, dim = query.spread[:, None], hits.spread.reshape(-1, k), query.dim
    away = hits.mean.reshape(-1, k, dim) - query.mean[:, None]
    between = away.square().sum(-1)
    own = x * (2 * dim * (2 * q + x) + 4 * between)
    return _Race(between + dim * x, 4 * q[..., None] * _products(away), own)


def _sphere_race(query: Embeddings, hits: Embeddings, k: int) -> _Race:
    q = sphere_terms(query.spread[:, None], query.dim)
    x = sphere_terms(hits.spread.reshape(-1, k), query.dim)
    away = hits.mean.reshape(-1, k, query.dim) - query.mean[:, None]
    between = away.square().sum(-1)
    along = x.length * (1 - between / 2)
    # E[x] is `along` in the direction of the query and A (away + between/2 mu_q) across it
    across = q.across.sqrt() * x.length
    inward = across * between / 2 + q.along.sqrt() * along
    seen = torch.addcmul(across[..., None] * away, inward[..., None], query.mean[:, None])
    nothing = torch.zeros_like(between)  # of E[x]: what q varies along it is shared
    own = InnerProduct(q, [Partner(1, x, between, nothing)], nothing, nothing, query.dim)
    return _Race(-2 * q.length * along, 4 * _products(seen), 4 * own.var)


def _products(seen: Tensor) -> Tensor:
    """Inner products of (n, K, D) with what all K have in common taken out."""
    seen = seen - seen.mean(1, keepdim=True)
    return seen @ seen.mT


def _win_shares(race: _Race) -> Tensor:
    k = race.mean.shape[1]
    values, vectors = torch.linalg.eigh(race.shared)
    root = (vectors * values.clamp(min=0).sqrt()[:, None]).flip(-1)  # the largest first
    points = _points(k).to(root.device)
    given = race.mean[..., None] + root @ points[:k]
    std = race.own.sqrt()[..., None]
    drawn = given + std * points[k:]
    least = second = torch.full_like(drawn[:, 0], math.inf)
    for one in drawn.unbind(1):
        second = torch.minimum(second, torch.maximum(least, one))
        least = torch.minimum(least, one)
    least, second = least[:, None], second[:, None]
    rival = torch.where(drawn > least, least, second)
    z = (given - rival) / (math.sqrt(2) * std)
    chance = torch.erfc(z.float())  # seven digits of it are enough, and ten times as fast
    shares = _tied(race) @ chance.mean(-1, keepdim=True, dtype=torch.float64)
    return (shares / shares.sum(1, keepdim=True))[..., 0]


def _tied(race: _Race) -> Tensor:
    """Averages over the hits that cannot be told apart, (n, K, K)."""
    of_each = race.shared.diagonal(dim1=1, dim2=2)
    total = of_each[..., None] + of_each[:, None]
    alike = total - 2 * race.shared <= _ALIKE * total
    for value in (race.mean, race.own):
        size = torch.maximum(value.abs()[..., None], value.abs()[:, None])
        alike &= (value[..., None] - value[:, None]).abs() <= _ALIKE * size
    return alike.double() / alike.sum(-1, keepdim=True)


@lru_cache(maxsize=4)
def _points(k: int) -> Tensor:
    """Standard normal, (2 K, POINTS), evenly spread; the first K are for the query."""
    even = SobolEngine(2 * k, scramble=True, seed=0).draw(POINTS, dtype=torch.float64)
    normal: Tensor = torch.special.ndtri(even.clamp(2.0**-32, 1 - 2.0**-32)).T.contiguous()
    return normal
