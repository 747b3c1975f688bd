"""Vectors that any L2 index ranks by the expected distance, at the price of one dimension."""

import torch
from torch import Tensor

from surefind.embeddings import Embeddings, Gaussians
from surefind.functional.checks import check_embeddings
from surefind.functional.sphere import sphere_terms


def stored_vectors(gallery: Embeddings) -> Tensor:
    r"""What a gallery is stored as, (M, D + 1).

    Squared distances from `asking_vectors` to these order it as E|q - x|^2 does:

    Gaussians:        [mu, sqrt(D v)],          |.|^2 = E|q - x|^2 - D v_q
    von Mises-Fisher: [A mu, sqrt(1 - A^2)],    |.|^2 = 2 - 2 A_x cos(q, x)

    On the sphere E|q - x|^2 = 2 - 2 A_q A_x cos(q, x), and A_q > 0 is the same for all of a
    query's gallery.
    """
    check_embeddings("gallery", gallery)
    if isinstance(gallery, Gaussians):
        return torch.cat([gallery.mean, (gallery.dim * gallery.var).sqrt()[:, None]], dim=1)
    length = sphere_terms(gallery.spread, gallery.dim).length[:, None]
    beyond = (1 - length.square()).clamp(min=0).sqrt()
    return torch.cat([length * gallery.mean, beyond], dim=1)


def asking_vectors(query: Embeddings) -> Tensor:
    """What a query asks with, (N, D + 1): [mu, 0]."""
    check_embeddings("query", query)
    return torch.cat([query.mean, query.mean.new_zeros(len(query), 1)], dim=1)
