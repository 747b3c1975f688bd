"""Divergence of embeddings from the prior."""

from torch import Tensor

from surefind.embeddings import Embeddings, Gaussians
from surefind.functional._checks import check_embeddings
from surefind.functional.vmf import kl_to_uniform


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
