"""How far an embedding is from the prior."""

from torch import Tensor

from surefind.embeddings import Embeddings, Gaussians
from surefind.functional.checks import check_embeddings
from surefind.functional.sphere import kl_to_uniform


def kl_to_prior(batch: Embeddings) -> Tensor:
    r"""KL(embedding || prior) of each image, (N,).

        Gaussians, prior N(0, I/D):   [D^2 v + D |mu|^2 - D - D log(D v)] / 2
        von Mises-Fisher, uniform:    kappa A - log 0F1(; D/2; kappa^2 / 4)

    The Gaussian prior concentrates on the unit sphere, so that neither family needs a separate
    normalisation of its means.
    """
    check_embeddings("batch", batch)
    if not isinstance(batch, Gaussians):
        return kl_to_uniform(batch.spread, batch.dim)
    dim = batch.dim
    relative = dim * batch.var
    return 0.5 * dim * (relative - 1 - relative.log() + batch.mean.square().sum(1))
