"""Distances between embeddings, vectors for an index of them, and their divergence from a prior."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding_bag

from surefind.embeddings import Embeddings, Gaussians, check_embeddings, check_pair
from surefind.errors import InvalidArgument
from surefind.functional._autograd import call
from surefind.functional.vmf import inner_product, kl_to_uniform, sphere_terms
from surefind.validation import check_number

Array = NDArray[np.float64]


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    r"""|x_i - y_j|^2 for all pairs, never negative.

    One matrix product, |x|^2 + |y|^2 - 2 x'y, in float64: in float32 it has no digits left for
    close pairs.

    Args:
        x: Points, (N, D).
        y: Points, (M, D).

    Returns:
        Squared distances, (N, M), in the type of `x`.
    """
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise InvalidArgument("x, y", expected="shapes (N, D) and (M, D)", got=f"{tuple(x.shape)} and {tuple(y.shape)}")
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
                return (2 * grad.sum(1)).diag().sub_(grad, alpha=2) @ x, None
            by_x = 2 * (grad.sum(1, keepdim=True) * x - grad @ y)
            return by_x, 2 * (grad.sum(0)[:, None] * y - grad.T @ x)


def triplet_distances(mean: Tensor, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """|a - p|^2, |a - n|^2 and |p - n|^2 for the rows of `mean` with these indices, (3, T)."""
    return call(_TripletDistances, mean, anchor, positive, negative)


class _TripletDistances(torch.autograd.Function):
    """Sums of few rows are bags of an embedding: one pass over them, without copies."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, a: Tensor, p: Tensor, n: Tensor) -> Tensor:
        ends = torch.stack([torch.cat([a, a, p]), torch.cat([p, n, n])], 1)
        signs = mean.new_tensor([1, -1]).expand(ends.shape)
        differences: Tensor = embedding_bag(ends, mean.detach(), mode="sum", per_sample_weights=signs)
        ctx.save_for_backward(differences, ends)
        ctx.rows = len(mean)
        lengths: Tensor = torch.linalg.vector_norm(differences, dim=1)
        return lengths.square_().view(3, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        differences, ends = ctx.saved_tensors
        order = ends.view(-1).argsort(stable=True)
        counts = torch.bincount(ends.view(-1), minlength=ctx.rows)
        weights = torch.stack([2 * grad, -2 * grad], -1).view(-1).index_select(0, order)
        starts = counts.cumsum(0) - counts
        by_mean = embedding_bag(order // 2, differences, starts, mode="sum", per_sample_weights=weights)
        return by_mean, None, None, None


def expected_distance(query: Embeddings, gallery: Embeddings) -> Tensor:
    r"""E|q - x|^2 for all pairs.

    Gaussians:       |mu_q - mu_x|^2 + D (v_q + v_x)
    von Mises-Fisher: 2 - 2 A_q A_x cos(q, x)

    Args:
        query: N embeddings.
        gallery: M embeddings.

    Returns:
        Expected squared distances, (N, M).
    """
    check_pair(query, gallery)
    between = squared_distances(query.mean, gallery.mean)
    if isinstance(gallery, Gaussians):
        return between + gallery.dim * (query.spread[:, None] + gallery.spread)
    return 2 - 2 * inner_product(query.spread[:, None], gallery.spread, between, gallery.dim).mean


def distance_variance(query: Embeddings, gallery: Embeddings) -> Tensor:
    r"""Var|q - x|^2 for all pairs.

    Gaussians:       2 D (v_q + v_x)^2 + 4 (v_q + v_x) |mu_q - mu_x|^2
    von Mises-Fisher: 4 Var[q'x]

    Args:
        query: N embeddings.
        gallery: M embeddings.

    Returns:
        Variances of the squared distance, (N, M).
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
    """
    check_pair(query, other, "query, other")
    if len(query) != len(other):
        raise InvalidArgument("other", expected=f"{len(query)} rows, one per query", got=str(len(other)))
    between = (query.mean - other.mean).square().sum(1)
    return _variance(query.spread, other, between)


def match_probability(query: Embeddings, gallery: Embeddings, radius: float, *, method: str = "saddlepoint") -> Tensor:
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
    """
    check_pair(query, gallery)
    between = squared_distances(query.mean, gallery.mean)
    return _match(
        query.spread[:, None],
        gallery.spread,
        between,
        gallery.dim,
        on_sphere=not isinstance(gallery, Gaussians),
        radius=radius,
        method=method,
    )


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
    """
    check_embeddings("query", query)
    return torch.cat([query.mean, query.mean.new_zeros(len(query), 1)], dim=1)


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
    """
    check_embeddings("batch", batch)
    if not isinstance(batch, Gaussians):
        return kl_to_uniform(batch.spread, batch.dim)
    dim = batch.dim
    precision = dim if prior_var is None else 1 / prior_var
    relative = precision * batch.var
    squared_length = precision * batch.mean.square().sum(1)
    return 0.5 * (dim * (relative - 1 - relative.log()) + squared_length)


def hit_match_probability(
    between: Array, query_var: Array, var: Array, radius: float, *, dim: int, family: str, method: str = "saddlepoint"
) -> Array:
    """P(|q - x| < radius) for each query's hits, in float64.

    Args:
        between: As in `hit_distances`, like `query_var`, `var`, `dim` and `family`.
        radius: A distance, not squared.
        method: As in `match_probability`.

    Returns:
        Probabilities, (N, K).
    """
    on_sphere = family != Gaussians.family
    spread, other = (torch.from_numpy(1 / its if on_sphere else its) for its in (query_var[:, None], var))
    probability = _match(
        spread, other, torch.from_numpy(between), dim, on_sphere=on_sphere, radius=radius, method=method
    )
    return probability.numpy()


# The following take squared distances of means; spread, gallery and distances broadcast.


def _variance(query_spread: Tensor, gallery: Embeddings, between: Tensor) -> Tensor:
    if isinstance(gallery, Gaussians):
        var = query_spread + gallery.spread
        return 2 * gallery.dim * var * var + 4 * var * between
    return 4 * inner_product(query_spread, gallery.spread, between, gallery.dim).var


def _match(
    query_spread: Tensor, spread: Tensor, between: Tensor, dim: int, *, on_sphere: bool, radius: float, method: str
) -> Tensor:
    from surefind.functional.cdf import check_method, log_cdf  # a search seldom needs them
    from surefind.functional.quadratic_form import QuadraticForm

    check_method(method, on_sphere=on_sphere)
    check_number("radius", radius, "a positive number", lambda x: 0 < x < math.inf)
    if on_sphere:
        inner = inner_product(query_spread, spread, between, dim)
        form = inner.form(scale=-2)
        gap = radius**2 - 2 + 2 * inner.mean
    else:
        var = query_spread + spread
        form = QuadraticForm(between, torch.zeros_like(between), var, None, dim)
        gap = radius**2 - form.mean
    return log_cdf(form, gap, method).exp()
