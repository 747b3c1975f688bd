"""Several views of one thing as one embedding: the product of their densities."""

import torch
from torch import Tensor

from surefind.embeddings import LARGEST_SPREAD, SMALLEST_SPREAD, Embeddings, Gaussians
from surefind.errors import InvalidArgument
from surefind.functional.checks import check_embeddings
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
