"""How far a query's hits are, and which of them match it.

Queries have as many hits each: rows i K to (i + 1) K of a gallery are the K hits of query i.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from surefind.embeddings import Embeddings, Gaussians
from surefind.errors import InvalidArgument
from surefind.functional.checks import check_method, check_pair
from surefind.functional.distance import expected_from, match_from, variance_from
from surefind.validation import check_number

NUMBERS_AT_ONCE = 1_000_000  # of means: 8 MB


class HitDistances(NamedTuple):
    """How far the hits of each query are, (N, K) each; all of the squared distance."""

    distance: Tensor  # between the means
    expected: Tensor  # E|q - x|^2
    std: Tensor  # of |q - x|^2


def hit_distances(query: Embeddings, gallery: Embeddings, *, per_query: int) -> HitDistances:
    """From N queries to their hits, in float64, from differences."""
    query, gallery = check_hits(query, gallery, per_query)
    spread, between = _pairs(query, gallery, per_query)
    of_pairs = (
        between,
        expected_from(spread, gallery, between),
        variance_from(spread, gallery, between).sqrt(),
    )
    return HitDistances(*(value.reshape(len(query), per_query) for value in of_pairs))


def hit_match_probability(
    query: Embeddings,
    gallery: Embeddings,
    radius: float,
    *,
    per_query: int,
    method: str = "saddlepoint",
) -> Tensor:
    """P(|q - x| < radius) for each query's hits, (N, K); as `match_probability`, in float64."""
    query, gallery = check_hits(query, gallery, per_query)
    check_method(method, on_sphere=not isinstance(query, Gaussians))
    check_number("radius", radius, "a positive number", lambda x: 0 < x < math.inf)
    spread, between = _pairs(query, gallery, per_query)
    chance = match_from(spread, gallery, between, radius=radius, method=method)
    return chance.reshape(len(query), per_query)


def check_hits(
    query: Embeddings, gallery: Embeddings, per_query: int
) -> tuple[Embeddings, Embeddings]:
    """Both in float64, if there are as many hits as there should be."""
    check_pair(query, gallery)
    check_number(
        "per_query", per_query, "a whole number from 1 on", lambda x: x >= 1 and x % 1 == 0
    )
    if len(gallery) != len(query) * per_query:
        raise InvalidArgument(
            "gallery",
            expected=f"{len(query) * per_query} rows, {per_query} for each query",
            got=str(len(gallery)),
        )
    return query.detach().to(torch.float64), gallery.detach().to(torch.float64)


def _pairs(query: Embeddings, gallery: Embeddings, per_query: int) -> tuple[Tensor, Tensor]:
    """The query's spread and the squared distance of means, for each of the N K hits."""
    between = [query.mean.new_empty(0)]
    size = max(1, NUMBERS_AT_ONCE // (per_query * query.dim))
    for start in range(0, len(query), size):
        hits = gallery.mean[start * per_query : (start + size) * per_query]
        away = hits.reshape(-1, per_query, query.dim) - query.mean[start : start + size, None]
        between.append(away.square().sum(-1).flatten())
    return query.spread.repeat_interleave(per_query), torch.cat(between)
