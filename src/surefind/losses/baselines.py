"""Baselines: the plain triplet loss, and triplet regression with a learned noise."""

import torch
from torch import Tensor

from surefind.embeddings import Embeddings, Gaussians
from surefind.losses.base import Scalars, TripletCriterion
from surefind.validation import check_choice, check_number


class TripletLoss(TripletCriterion):
    r"""max(0, |a - p|^2 - |a - n|^2 + margin), averaged over the triplets.

    It uses the means only, so it also takes a plain (N, D) tensor.

    Args:
        margin: Margin between squared distances; the default is for unit vectors.

    Raises:
        InvalidArgument: If the margin is not a finite number.
    """

    def __init__(self, margin: float = 0.2) -> None:
        super().__init__()
        check_number("margin", margin)
        self.margin = margin

    def extra_repr(self) -> str:
        return f"margin={self.margin!r}"

    def as_batch(self, embeddings: Embeddings | Tensor) -> Embeddings:
        """Wrap a plain tensor as Gaussians; their variance is not used."""
        if isinstance(embeddings, Tensor) and embeddings.ndim == 2:
            return Gaussians(embeddings, embeddings.new_ones(len(embeddings)))
        return super().as_batch(embeddings)

    def spread_parts(self, embeddings: Embeddings) -> tuple[Tensor, ...]:
        return ()

    def cost(self, scalars: Scalars, dim: int) -> Tensor:
        return (scalars.d_ap - scalars.d_an + self.margin).clamp(min=0)

    def std(self, scalars: Scalars, dim: int) -> Tensor:
        return torch.zeros_like(scalars.d_an)


POOLING = ("sum", "image")


class TripletRegressionLoss(TripletCriterion):
    r"""L / (2 s^2) + log(s^2) / 2 with L the triplet loss and s^2 a learned noise.

    Args:
        margin: Margin between squared distances; the default is for unit vectors.
        pooling: "sum": s^2 is the sum of the three variances. "image": one such term per image,
            averaged over the three. Both are readings of the original, which does not say.

    Raises:
        InvalidArgument: If margin or pooling is not valid.
    """

    def __init__(self, margin: float = 0.2, *, pooling: str = "sum") -> None:
        super().__init__()
        check_choice("pooling", pooling, POOLING)
        check_number("margin", margin)
        self.margin, self.pooling = margin, pooling

    def extra_repr(self) -> str:
        return f"margin={self.margin!r}, pooling={self.pooling!r}"

    def spread_parts(self, embeddings: Embeddings) -> tuple[Tensor, ...]:
        return (embeddings.var,)

    def cost(self, scalars: Scalars, dim: int) -> Tensor:
        hinge = (scalars.d_ap - scalars.d_an + self.margin).clamp(min=0)
        (a,), (p,), (n,) = scalars.a, scalars.p, scalars.n
        if self.pooling == "sum":
            return _regression(hinge, a + p + n)
        return (_regression(hinge, a) + _regression(hinge, p) + _regression(hinge, n)) / 3

    def std(self, scalars: Scalars, dim: int) -> Tensor:
        return torch.sqrt(scalars.a[0] + scalars.p[0] + scalars.n[0])


def _regression(hinge: Tensor, noise: Tensor) -> Tensor:
    return 0.5 * (hinge / noise + noise.log())
