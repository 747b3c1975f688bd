"""Query expansion: a query moves towards its neighbours, less so towards vague ones."""

import torch
from torch.nn.functional import normalize

from surefind.embeddings import LARGEST_SPREAD, SMALLEST_SPREAD, Embeddings, Gaussians
from surefind.errors import InvalidArgument
from surefind.functional.checks import check_pair
from surefind.validation import check_number


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
