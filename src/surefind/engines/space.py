"""How embeddings become the vectors that an engine ranks, and back."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from surefind.choices import check_choice
from surefind.embeddings import FAMILIES, Embeddings, Gaussians, VonMisesFisher
from surefind.errors import InvalidArgument
from surefind.functional.search_vectors import asking_vectors, stored_vectors

RANKINGS = ("expected", "mean")  # by expected distance, or by the distance of the means


@dataclass(frozen=True)
class Space:
    """The embeddings of one index, and the ranking that is its engine's own L2 order."""

    family: str
    dim: int
    ranking: str = "expected"

    def __post_init__(self) -> None:
        check_choice("family", self.family, tuple(FAMILIES))
        check_choice("ranking", self.ranking, RANKINGS)
        if self.dim < 1:
            raise InvalidArgument("dim", expected="at least 1", got=str(self.dim), fix="raise it")

    @property
    def width(self) -> int:
        """Numbers per stored vector."""
        return self.dim + (self.ranking == "expected")

    def check(self, embeddings: Embeddings) -> None:
        if (embeddings.family, embeddings.dim) != (self.family, self.dim):
            raise InvalidArgument(
                "embeddings",
                expected=f"{self.family} of {self.dim} dimensions, as in the index",
                got=f"{embeddings.family} of {embeddings.dim}",
                fix="encode with the model that the index was made with",
            )

    def stored(self, embeddings: Embeddings) -> NDArray[np.float32]:
        """What is kept of a gallery, (M, width)."""
        self.check(embeddings)
        return _array(stored_vectors(embeddings) if self.width > self.dim else embeddings.mean)

    def asking(self, query: Embeddings) -> NDArray[np.float32]:
        """What a query asks with, (Q, width)."""
        self.check(query)
        return _array(asking_vectors(query) if self.width > self.dim else query.mean)

    def var(self, embeddings: Embeddings) -> NDArray[np.float64]:
        """The variance of each row; 1/kappa on the sphere. (M,)"""
        spread = embeddings.spread.detach().cpu().double()
        return np.asarray(spread if isinstance(embeddings, Gaussians) else 1 / spread)

    def embeddings(self, vectors: NDArray[np.float32], var: NDArray[np.float64]) -> Embeddings:
        """The embeddings behind stored vectors (M, width)."""
        mean = torch.from_numpy(np.ascontiguousarray(vectors[:, : self.dim]))
        if self.family == Gaussians.family:
            return Gaussians(mean, torch.from_numpy(np.asarray(var)).float())
        if self.width > self.dim:
            mean = normalize(mean, dim=1, eps=1e-30)
        return VonMisesFisher(mean, torch.from_numpy(1 / np.asarray(var)).float())


def _array(vectors: Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(vectors.detach().cpu().float().numpy())
