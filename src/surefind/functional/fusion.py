"""Several embeddings as one: views of one thing, and a query with its neighbours."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from surefind.embeddings import LARGEST_SPREAD, SMALLEST_SPREAD, Embeddings, Gaussians
from surefind.errors import InvalidArgument
from surefind.functional.checks import check_embeddings, check_pair
from surefind.validation import check_number


def fuse(views: Embeddings, *, correlation: float = 0.0) -> Embeddings:
    r"""One row that knows what K rows know.

    The product of their densities, normalised, is of the same family:

        Gaussians:        var = 1 / sum(1 / v_i),   mean = var * sum(mu_i / v_i)
        von Mises-Fisher: kappa mean = sum(kappa_i mu_i)

    That is right for independent views. Views of one photo err together: with a `correlation`
    between 0 and 1, K of them count as K / (1 + (K - 1) correlation), and the precision falls by
    that factor; at 1 they are no more precise than one of them. The mean stays as it is.

    >>> view = Gaussians(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0.1, 0.3]))
    >>> fuse(view)
    Gaussians(mean=tensor([[0.7500, 0.2500]]), var=tensor([0.0750]))
    """
    check_embeddings("views", views)
    check_number("correlation", correlation, "a number from 0 to 1", lambda x: 0 <= x <= 1)
    if not len(views):
        raise InvalidArgument("views", expected="at least one row", got="none")
    wide = views.to(torch.float64)
    repeated = 1 + (len(views) - 1) * correlation
    if isinstance(wide, Gaussians):
        precision = 1 / wide.var
        mean = (precision / precision.sum()) @ wide.mean
        spread = repeated / precision.sum()
    else:
        mean, length = _direction(wide)
        spread = length / repeated
    spread = _within_bounds(spread, on_sphere=not isinstance(wide, Gaussians))
    return views.replace(*(x[None].to(views.mean.dtype) for x in (mean, spread)))


def _direction(views: Embeddings) -> tuple[Tensor, Tensor]:
    """Of the sum of kappa_i mu_i, and its length; views that cancel out keep the first's."""
    total = views.spread @ views.mean
    length = total.norm()
    if length <= 1e-12 * views.spread.sum():
        return views.mean[0], torch.zeros_like(length)
    return total / length, length


def _within_bounds(spread: Tensor, *, on_sphere: bool) -> Tensor:
    """What embeddings may hold: views as sharp as allowed would fuse to something sharper."""
    bounds = SMALLEST_SPREAD, LARGEST_SPREAD
    low, high = (1 / bounds[1], 1 / bounds[0]) if on_sphere else bounds
    return spread.clamp(low, high)


def expand(
    query: Embeddings, neighbours: Embeddings, *, alpha: float = 3.0, certainty: bool = True
) -> Embeddings:
    r"""Each of N queries averaged with its K neighbours, which follow each other in N K rows.

        w_q = 1,   w_i = max(0, cos(q, i))^alpha  [* 2 p_i / (p_q + p_i)],   p = 1/v or kappa

    Without the factor in brackets (`certainty=False`) this is alpha query expansion (Radenovic
    et al. 2018), and with alpha = 0 the average of all. The factor is 1 for a neighbour as precise
    as the query and falls to 0 for a vague one: the outliers that Warburg et al. hope to avoid.

    The mean sum(w mu) is scaled to the query's length. The variance is that of a weighted mean of
    independent embeddings, scaled alike: sum(w^2 v) |mu_q|^2 / |sum(w mu)|^2. On the sphere 1/kappa
    is taken for v.
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
    var = torch.cat([q.spread[:, None], x.spread.reshape(len(q), -1)], dim=1)
    if not isinstance(q, Gaussians):
        var = 1 / var
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
