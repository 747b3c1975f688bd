"""The plain triplet loss, the baseline that knows no uncertainty."""

import torch
from torch import Tensor

from surefind.embeddings import Embeddings, Gaussians
from surefind.losses.criterion import Scalars, TripletCriterion
from surefind.validation import check_number


class TripletLoss(TripletCriterion):
    r"""max(0, |a - p|^2 - |a - n|^2 + margin), averaged over the triplets.

    Looks at the means only, so a plain (N, D) tensor will do as well as embeddings; normalise it
    first, as the default margin expects unit vectors.
    """

    def __init__(self, margin: float = 0.2) -> None:
        super().__init__()
        check_number("margin", margin)
        self.margin = margin

    def extra_repr(self) -> str:
        return f"margin={self.margin!r}"

    def as_batch(self, embeddings: Embeddings | Tensor) -> Embeddings:
        """Points are Gaussians whose variance nobody looks at."""
        if isinstance(embeddings, Tensor) and embeddings.ndim == 2:
            return Gaussians(embeddings, embeddings.new_ones(len(embeddings)))
        return super().as_batch(embeddings)

    def spread_parts(self, embeddings: Embeddings) -> tuple[Tensor, ...]:
        return ()

    def cost(self, scalars: Scalars, dim: int) -> Tensor:
        return (scalars.d_ap - scalars.d_an + self.margin).clamp(min=0)

    def std(self, scalars: Scalars, dim: int) -> Tensor:
        return torch.zeros_like(scalars.d_an)

    def kl(self, embeddings: Embeddings) -> None:
        return None
