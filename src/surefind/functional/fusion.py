"""Fusion of several views of one thing, and query expansion."""

import torch
from torch.nn.functional import normalize

from surefind.embeddings import LARGEST_SPREAD, SMALLEST_SPREAD, Embeddings, Gaussians, check_embeddings, check_pair
from surefind.errors import InvalidArgument
from surefind.validation import check_number, check_share


def fuse(views: Embeddings, *, correlation: float = 0.0) -> Embeddings:
    r"""Fuse K views of one thing into one embedding.

    The normalised product of their densities, which is of the same family:

        Gaussians:        var = 1 / sum(1 / v_i),   mean = var * sum(mu_i / v_i)
        von Mises-Fisher: kappa mean = sum(kappa_i mu_i)

    That is right for independent views. Correlated ones count as K / (1 + (K - 1) correlation):
    at 1 they are no more precise than one of them. The mean does not depend on it.

    Args:
        views: K embeddings, at least one.
        correlation: Correlation of the errors of the views, from 0 to 1.

    Raises:
        InvalidArgument: If there is no view, or the correlation is not from 0 to 1.

    >>> fuse(Gaussians([[1.0, 0.0], [0.0, 1.0]], [0.1, 0.3])).mean
    tensor([[0.7500, 0.2500]])
    """
    check_embeddings("views", views)
    check_share("correlation", correlation, closed=True)
    if not len(views):
        raise InvalidArgument("views", expected="at least one row", got="none")
    wide = views.to(torch.float64)
    dependence = 1 + (len(views) - 1) * correlation
    if isinstance(wide, Gaussians):
        precision = 1 / wide.var
        mean = (precision / precision.sum()) @ wide.mean
        spread = dependence / precision.sum()
    else:
        total = wide.spread @ wide.mean
        length = total.norm()
        if length > 1e-12 * wide.spread.sum():
            mean = total / length
        else:  # the views cancel out
            mean, length = wide.mean[0], torch.zeros_like(length)
        spread = length / dependence
    # The sharpest views that embeddings may hold fuse to something sharper.
    low, high = SMALLEST_SPREAD, LARGEST_SPREAD
    bounds = (low, high) if isinstance(wide, Gaussians) else (1 / high, 1 / low)
    spread = spread.clamp(*bounds)
    return views.replace(*(x[None].to(views.mean.dtype) for x in (mean, spread)))


def expand(query: Embeddings, neighbours: Embeddings, *, alpha: float = 3.0, certainty: bool = True) -> Embeddings:
    r"""Expand each query: average it with its K neighbours.

        w_q = 1,   w_i = max(0, cos(q, i))^alpha  [* 2 p_i / (p_q + p_i)],   p = 1/v or kappa

    Without the factor in brackets this is alpha query expansion (Radenovic et al. 2018), and with
    alpha = 0 the average of all. The factor is 1 for a neighbour as precise as the query and falls
    to 0 for an uncertain one: the outliers that Warburg et al. hope to avoid.

    The mean sum(w mu) is scaled to the query's length. The variance is that of a weighted mean of
    independent embeddings, scaled alike: sum(w^2 v) |mu_q|^2 / |sum(w mu)|^2; v is 1/kappa on the
    sphere.

    Args:
        query: N embeddings.
        neighbours: N K embeddings, K in a row for each query.
        alpha: Exponent of the cosine.
        certainty: Whether to weight by relative precision.

    Returns:
        N embeddings.
    """
    check_pair(query, neighbours, "query, neighbours")
    check_number("alpha", alpha, "a number from 0 on", lambda x: 0 <= x < 1e6)
    if not len(query) or not len(neighbours) or len(neighbours) % len(query):
        raise InvalidArgument(
            "neighbours",
            expected="as many rows for each query, at least one",
            got=f"{len(neighbours)} rows for {len(query)} queries",
        )
    q, x = query.to(torch.float64), neighbours.to(torch.float64)
    means = torch.cat([q.mean[:, None], x.mean.reshape(len(q), -1, q.dim)], dim=1)
    var = torch.cat([q.var[:, None], x.var.reshape(len(q), -1)], dim=1)
    unit = normalize(means, dim=2)
    weight = (unit @ unit[:, 0, :, None])[..., 0].clamp(min=0) ** alpha
    if certainty:
        weight = weight * 2 * var[:, :1] / (var[:, :1] + var)
    weight[:, 0] = 1
    total = (weight[:, None] @ means)[:, 0]
    length, reach = q.mean.norm(dim=1), total.norm(dim=1)
    lost = (reach <= 1e-9 * length) | (length == 0)  # no direction is left: the query stays
    scale = length / torch.where(lost, 1, reach)
    mean = torch.where(lost[:, None], q.mean, scale[:, None] * total)
    spread = torch.where(lost, var[:, 0], (weight.square() * var).sum(1) * scale.square())
    spread = spread.clamp(SMALLEST_SPREAD, LARGEST_SPREAD)
    if not isinstance(q, Gaussians):
        spread = 1 / spread
    return query.replace(*(part.to(query.mean.dtype) for part in (mean, spread)))
