"""The plain triplet loss, the baseline that knows no uncertainty."""

from collections.abc import Sequence

import torch
from torch import Tensor

from surefind.embeddings import Embeddings, Gaussians
from surefind.functional.checks import check_finite
from surefind.losses.criterion import LossInfo, Scalars, TripletCriterion


class TripletLoss(TripletCriterion):
    r"""max(0, |a - p|^2 - |a - n|^2 + margin), averaged over the triplets.

    Looks at the means only, so a plain (N, D) tensor will do as well as embeddings; normalise it
    first, as the default margin expects unit vectors.
    """

    def __init__(self, margin: float = 0.2) -> None:
        super().__init__()
        check_finite("margin", margin)
        self.margin = margin

    def extra_repr(self) -> str:
        return f"margin={self.margin!r}"

    def forward(
        self,
        embeddings: Embeddings | Tensor,
        labels: Tensor | None = None,
        indices_tuple: Sequence[Tensor] | None = None,
        *,
        triplets: Sequence[Tensor] | None = None,
    ) -> Tensor:
        return super().forward(_as_batch(embeddings), labels, indices_tuple, triplets=triplets)

    def diagnose(
        self,
        embeddings: Embeddings | Tensor,
        labels: Tensor | None = None,
        indices_tuple: Sequence[Tensor] | None = None,
        *,
        triplets: Sequence[Tensor] | None = None,
    ) -> LossInfo:
        return super().diagnose(_as_batch(embeddings), labels, indices_tuple, triplets=triplets)

    def spread_parts(self, embeddings: Embeddings) -> tuple[Tensor, ...]:
        return ()

    def cost(self, scalars: Scalars, dim: int) -> Tensor:
        return (scalars.d_ap - scalars.d_an + self.margin).clamp(min=0)

    def std(self, scalars: Scalars, dim: int) -> Tensor:
        return torch.zeros_like(scalars.d_an)

    def kl(self, embeddings: Embeddings) -> None:
        return None


def _as_batch(embeddings: Embeddings | Tensor) -> Embeddings:
    """Points are Gaussians whose variance nobody looks at."""
    if isinstance(embeddings, Tensor) and embeddings.ndim == 2:
        return Gaussians(embeddings, embeddings.new_ones(len(embeddings)))
    return embeddings  # type: ignore[return-value]  # checked by the caller
