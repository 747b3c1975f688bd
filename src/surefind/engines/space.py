"""Embeddings as the vectors that an engine ranks by L2, and back."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefind.embeddings import FAMILIES, Embeddings, Gaussians
from surefind.errors import InvalidArgument
from surefind.functional.ranking import RANKINGS, gallery_vectors, query_vectors
from surefind.validation import check_choice


@dataclass(frozen=True)
class Space:
    """Embeddings of one index, and the ranking that is its engine's own L2 order.

    Args:
        family: "gaussian" or "von-mises-fisher".
        dim: dimensions of an embedding.
        ranking: "expected" (distance) or "mean".

    Raises:
        InvalidArgument: if a value is not one of these.
    """

    family: str
    dim: int
    ranking: str = "expected"

    def __post_init__(self) -> None:
        check_choice("family", self.family, tuple(FAMILIES))
        check_choice("ranking", self.ranking, RANKINGS)
        if self.dim < 1:
            raise InvalidArgument("dim", expected="at least 1", got=str(self.dim))

    @property
    def width(self) -> int:
        """Length of a stored vector."""
        return self.dim + (self.ranking == "expected")

    def check(self, embeddings: Embeddings) -> None:
        if (embeddings.family, embeddings.dim) != (self.family, self.dim):
            raise InvalidArgument(
                "embeddings",
                expected=f"{self.family} of {self.dim} dimensions, as in the index",
                got=f"{embeddings.family} of {embeddings.dim}",
                fix="encode with the model that the index was made with",
            )

    def gallery_vectors(self, embeddings: Embeddings) -> NDArray[np.float32]:
        """Return the vectors to store, (M, width)."""
        self.check(embeddings)
        return _array(gallery_vectors(embeddings) if self.width > self.dim else embeddings.mean)

    def query_vectors(self, query: Embeddings) -> NDArray[np.float32]:
        """Return the vectors to search with, (Q, width)."""
        self.check(query)
        return _array(query_vectors(query) if self.width > self.dim else query.mean)

    def var(self, embeddings: Embeddings) -> NDArray[np.float64]:
        """Return the variance of each row (1/kappa on the sphere), (M,)."""
        return np.asarray(embeddings.detach().to("cpu").to(torch.float64).var)

    def means(self, vectors: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
        """Return the means of stored vectors, (..., width) to (..., D)."""
        means = vectors[..., : self.dim]
        if self.family == Gaussians.family or self.width == self.dim:
            return means
        wide = means.astype(np.float64)
        length = np.linalg.norm(wide, axis=-1, keepdims=True)
        return wide / np.where(length > 0, length, 1)

    def embeddings(self, vectors: NDArray[np.float32], var: NDArray[np.float64]) -> Embeddings:
        """Return the embeddings of stored vectors (M, width)."""
        mean = torch.from_numpy(np.array(self.means(vectors), dtype=np.float32))
        spread = np.asarray(var) if self.family == Gaussians.family else 1 / np.asarray(var)
        return FAMILIES[self.family](*[mean, torch.from_numpy(spread).float()])


def _array(vectors: Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(vectors.detach().cpu().float().numpy())
