"""Vectors that any L2 index ranks by the expected distance, at the price of one dimension."""

from typing import NamedTuple

import torch
from torch import Tensor

from surefind.embeddings import Embeddings, Gaussians
from surefind.functional.checks import check_embeddings
from surefind.functional.sphere import sphere_terms


class SearchVectors(NamedTuple):
    """What a batch is stored as, and what it asks with; both (N, D + 1)."""

    stored: Tensor
    asking: Tensor


def search_vectors(batch: Embeddings) -> SearchVectors:
    r"""Squared distances from `asking` to `stored` order a gallery as E|q - x|^2 does.

    Gaussians:        stored [mu, sqrt(D v)],          |.|^2 = E|q - x|^2 - D v_q
    von Mises-Fisher: stored [A mu, sqrt(1 - A^2)],    |.|^2 = 2 - 2 A_x cos(q, x)

    and asking is [mu, 0] in both. On the sphere E|q - x|^2 = 2 - 2 A_q A_x cos(q, x), and A_q > 0
    is the same for all of a query's gallery.
    """
    check_embeddings("batch", batch)
    nothing = batch.mean.new_zeros(len(batch), 1)
    if isinstance(batch, Gaussians):
        stored = torch.cat([batch.mean, (batch.dim * batch.var).sqrt()[:, None]], dim=1)
    else:
        length = sphere_terms(batch.spread, batch.dim).length[:, None]
        beyond = (1 - length.square()).clamp(min=0).sqrt()
        stored = torch.cat([length * batch.mean, beyond], dim=1)
    return SearchVectors(stored, torch.cat([batch.mean, nothing], dim=1))
