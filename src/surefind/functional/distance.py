"""Distances between embeddings, and their divergence from a prior."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from surefind.embeddings import Embeddings, Gaussians, check_embeddings, check_pair
from surefind.errors import InvalidArgument
from surefind.functional._autograd import call
from surefind.functional.cdf import check_method, log_cdf
from surefind.functional.quadratic_form import QuadraticForm
from surefind.functional.vmf import InnerProduct, Partner, kl_to_uniform, sphere_terms
from surefind.validation import check_number, check_whole

BLOCK = 1_000_000  # entries of means at once: 8 MB


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    r"""|x_i - y_j|^2 for all pairs, never negative.

    One matrix product, |x|^2 + |y|^2 - 2 x'y, in float64: in float32 it has no digits left for
    close pairs.

    Args:
        x: Points, (N, D).
        y: Points, (M, D).

    Returns:
        Squared distances, (N, M), in the type of `x`.

    Raises:
        InvalidArgument: If the shapes do not fit.
    """
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise InvalidArgument(
            "x, y",
            expected="shapes (N, D) and (M, D)",
            got=f"{tuple(x.shape)} and {tuple(y.shape)}",
        )
    return call(_SquaredDistances, x, y)


class _SquaredDistances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.same = y is x
        ctx.save_for_backward(x, y)
        wide_x = x.double()
        wide_y = wide_x if ctx.same else y.double()
        inner = wide_x @ wide_y.T
        if ctx.same:
            square_x = square_y = inner.diagonal().clone()
        else:
            square_x, square_y = wide_x.square().sum(1), wide_y.square().sum(1)
        result = inner.mul_(-2).add_(square_x[:, None]).add_(square_y).clamp_(min=0)
        return result.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None]:
        x, y = ctx.saved_tensors
        with torch.autocast(x.device.type, enabled=False):
            if ctx.same:
                grad = grad + grad.T
                return 2 * (grad.sum(1, keepdim=True) * x - grad @ x), None
            by_x = 2 * (grad.sum(1, keepdim=True) * x - grad @ y)
            return by_x, 2 * (grad.sum(0)[:, None] * y - grad.T @ x)


def triplet_distances(
    mean: Tensor, anchor: Tensor, positive: Tensor, negative: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """|a - p|^2, |a - n|^2 and |p - n|^2 for the rows of `mean` with these indices."""
    distances = call(_TripletDistances, mean, anchor, positive, negative)
    return distances[0], distances[1], distances[2]


class _TripletDistances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mean: Tensor, *sides: Tensor) -> Tensor:
        a, p, n = (mean.index_select(0, side) for side in sides)
        ap, an = torch.sub(a, p, out=p), torch.sub(a, n, out=n)
        pn = torch.sub(an, ap, out=a)
        ctx.save_for_backward(ap, an, pn, *sides)
        ctx.rows = len(mean)
        return torch.stack([x.norm(dim=1) for x in (ap, an, pn)]).square_()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        ap, an, pn, anchor, positive, negative = ctx.saved_tensors
        by_ap, by_an, by_pn = (2 * grad)[..., None]
        by_a = (ap * by_ap).addcmul_(an, by_an)
        by_p = (pn * by_pn).addcmul_(ap, by_ap, value=-1)
        total = ap.new_zeros(ctx.rows, ap.shape[1])
        total.index_add_(0, anchor, by_a).index_add_(0, positive, by_p)
        return total.index_add_(0, negative, by_a.add_(by_p), alpha=-1), None, None, None


def expected_distance(query: Embeddings, gallery: Embeddings) -> Tensor:
    r"""E|q - x|^2 for all pairs.

    Gaussians:       |mu_q - mu_x|^2 + D (v_q + v_x)
    von Mises-Fisher: 2 - 2 A_q A_x cos(q, x)

    Args:
        query: N embeddings.
        gallery: M embeddings.

    Returns:
        Expected squared distances, (N, M).

    Raises:
        InvalidArgument: If family or dimension of the two differ.
    """
    check_pair(query, gallery)
    between = squared_distances(query.mean, gallery.mean)
    return _expected(query.spread[:, None], gallery, between)


def distance_variance(query: Embeddings, gallery: Embeddings) -> Tensor:
    r"""Var|q - x|^2 for all pairs.

    Gaussians:       2 D (v_q + v_x)^2 + 4 (v_q + v_x) |mu_q - mu_x|^2
    von Mises-Fisher: 4 Var[q'x]

    Args:
        query: N embeddings.
        gallery: M embeddings.

    Returns:
        Variances of the squared distance, (N, M).

    Raises:
        InvalidArgument: If family or dimension of the two differ.
    """
    check_pair(query, gallery)
    between = squared_distances(query.mean, gallery.mean)
    return _variance(query.spread[:, None], gallery, between)


def paired_distance_variance(query: Embeddings, other: Embeddings) -> Tensor:
    """Var|q - x|^2 row by row, with the formulas of `distance_variance`.

    Args:
        query: N embeddings.
        other: N embeddings.

    Returns:
        Variances of the squared distance, (N,).

    Raises:
        InvalidArgument: If family, dimension or number of the two differ.
    """
    check_pair(query, other, "query, other")
    if len(query) != len(other):
        raise InvalidArgument(
            "other", expected=f"{len(query)} rows, one per query", got=str(len(other))
        )
    between = (query.mean - other.mean).square().sum(1)
    return _variance(query.spread, other, between)


def match_probability(
    query: Embeddings, gallery: Embeddings, radius: float, *, method: str = "saddlepoint"
) -> Tensor:
    r"""P(|q - x| < radius) for all pairs.

    Between Gaussians |q - x|^2 is a scaled non-central chi-square. On the sphere its first three
    cumulants are exact and the rest of its shape is that of a quadratic form.

    Args:
        query: N embeddings.
        gallery: M embeddings.
        radius: A distance, not squared.
        method: As in `triplet_log_prob`; there is no "exact" on the sphere.

    Returns:
        Probabilities, (N, M).

    Raises:
        InvalidArgument: If family or dimension differ, or radius or method is not valid.
    """
    check_pair(query, gallery)
    between = squared_distances(query.mean, gallery.mean)
    return _match(query.spread[:, None], gallery, between, radius=radius, method=method)


def kl_to_prior(batch: Embeddings, prior_var: float | None = None) -> Tensor:
    r"""KL(embedding || prior) of each image.

        Gaussians, prior N(0, v0 I):  [D v/v0 + |mu|^2 / v0 - D - D log(v/v0)] / 2
        von Mises-Fisher, uniform:    kappa A - log 0F1(; D/2; kappa^2 / 4)

    The default prior N(0, I/D) concentrates on the unit sphere, so that neither family needs a
    separate normalisation of its means.

    Args:
        batch: N embeddings.
        prior_var: Variance v0 of the Gaussian prior; 1/D by default.

    Returns:
        Divergences, (N,).

    Raises:
        InvalidArgument: If `batch` is no embeddings.
    """
    check_embeddings("batch", batch)
    if not isinstance(batch, Gaussians):
        return kl_to_uniform(batch.spread, batch.dim)
    dim = batch.dim
    precision = dim if prior_var is None else 1 / prior_var
    relative = precision * batch.var
    squared_length = precision * batch.mean.square().sum(1)
    return 0.5 * (dim * (relative - 1 - relative.log()) + squared_length)


class HitDistances(NamedTuple):
    """Squared distances from each query to its hits, (N, K) each.

    Attributes:
        distance: Between the means.
        expected: E|q - x|^2.
        std: Standard deviation of |q - x|^2.
    """

    distance: Tensor
    expected: Tensor
    std: Tensor


def hit_distances(query: Embeddings, gallery: Embeddings, *, per_query: int) -> HitDistances:
    """Squared distances from N queries to their hits, from differences in float64.

    Args:
        query: N embeddings.
        gallery: The hits: N K embeddings, K in a row for each query.
        per_query: K.

    Returns:
        Distances, (N, K) each.

    Raises:
        InvalidArgument: If family or dimension differ, or there are not K hits per query.
    """
    gallery, spread, between = _hit_pairs(query, gallery, per_query)
    of_pairs = (
        between,
        _expected(spread, gallery, between),
        _variance(spread, gallery, between).sqrt(),
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
    """P(|q - x| < radius) for each query's hits, in float64.

    Args:
        query: N embeddings.
        gallery: The hits: N K embeddings, K in a row for each query.
        radius: A distance, not squared.
        per_query: K.
        method: As in `match_probability`.

    Returns:
        Probabilities, (N, K).

    Raises:
        InvalidArgument: As `hit_distances`, or if radius or method is not valid.
    """
    gallery, spread, between = _hit_pairs(query, gallery, per_query)
    probability = _match(spread, gallery, between, radius=radius, method=method)
    return probability.reshape(len(query), per_query)


# The following take squared distances of means; spread, gallery and distances broadcast.


def _expected(query_spread: Tensor, gallery: Embeddings, between: Tensor) -> Tensor:
    if isinstance(gallery, Gaussians):
        return between + gallery.dim * (query_spread + gallery.spread)
    return 2 - 2 * _inner_product(query_spread, gallery, between).mean


def _variance(query_spread: Tensor, gallery: Embeddings, between: Tensor) -> Tensor:
    if isinstance(gallery, Gaussians):
        var = query_spread + gallery.spread
        return 2 * gallery.dim * var * var + 4 * var * between
    return 4 * _inner_product(query_spread, gallery, between).var


def _match(
    query_spread: Tensor, gallery: Embeddings, between: Tensor, *, radius: float, method: str
) -> Tensor:
    check_method(method, on_sphere=not isinstance(gallery, Gaussians))
    check_number("radius", radius, "a positive number", lambda x: 0 < x < math.inf)
    if isinstance(gallery, Gaussians):
        var = query_spread + gallery.spread
        form = QuadraticForm(between, torch.zeros_like(between), var, None, gallery.dim)
        gap = radius**2 - form.mean
    else:
        inner = _inner_product(query_spread, gallery, between)
        form = inner.form(scale=-2)
        gap = radius**2 - 2 + 2 * inner.mean
    return log_cdf(form, gap, method).exp()


def _inner_product(kappa: Tensor, gallery: Embeddings, between: Tensor) -> InnerProduct:
    q, x = sphere_terms(kappa, gallery.dim), sphere_terms(gallery.spread, gallery.dim)
    partner = Partner(1, x, between, x.length)
    along = x.length * (1 - between / 2)
    return InnerProduct(q, [partner], x.length**2, along, gallery.dim)


def _hit_pairs(
    query: Embeddings, gallery: Embeddings, per_query: int
) -> tuple[Embeddings, Tensor, Tensor]:
    """The N K hits in float64; for each, the query's spread and the squared distance of means."""
    check_pair(query, gallery)
    check_whole("per_query", per_query)
    if len(gallery) != len(query) * per_query:
        raise InvalidArgument(
            "gallery",
            expected=f"{len(query) * per_query} rows, {per_query} for each query",
            got=str(len(gallery)),
        )
    query, gallery = (batch.detach().to(torch.float64) for batch in (query, gallery))
    between = [query.mean.new_empty(0)]
    size = max(1, BLOCK // (per_query * query.dim))
    for start in range(0, len(query), size):
        hits = gallery.mean[start * per_query : (start + size) * per_query]
        away = hits.reshape(-1, per_query, query.dim) - query.mean[start : start + size, None]
        between.append(away.square().sum(-1).flatten())
    return gallery, query.spread.repeat_interleave(per_query), torch.cat(between)
