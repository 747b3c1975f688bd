"""The directions in which vectors differ most: all that variance heads look at."""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from surefind.errors import InvalidArgument

ENOUGH = 8192  # vectors to find directions in
FLATTEST = 1e-6  # of a direction's variance, relative to the first: less is rounding


class Directions(NamedTuple):
    """Orthogonal, the widest first; labels play no part in them."""

    centre: Tensor  # (D,)
    axes: Tensor  # (D, K), of length 1
    std: Tensor  # (K,) of the vectors along each
    scale: float  # a typical squared distance between two vectors

    def coordinates(self, vectors: Tensor) -> Tensor:
        """Along each direction, (N, K), in units in which a typical squared distance is 1."""
        return (vectors - self.centre) @ self.axes / math.sqrt(self.scale)

    def first(self, count: int) -> "Directions":
        """The widest of them."""
        return self._replace(axes=self.axes[:, :count], std=self.std[:count])


def find_directions(vectors: Tensor, *, most: int, seed: int) -> Directions:
    """At most `most` principal directions of vectors (N, D)."""
    # Not at the top: heads are read at every search, found once.
    from sklearn.decomposition import PCA  # type: ignore[import-untyped]

    some = _some(vectors, seed).double().numpy()
    if not np.ptp(some, axis=0).any():
        raise InvalidArgument(
            "vectors",
            expected="vectors that differ",
            got=f"the same one {len(vectors)} times",
            fix="look at how the vectors were made",
        )
    pca = PCA(min(most, *some.shape), random_state=seed).fit(some)
    wide = pca.explained_variance_ > FLATTEST * pca.explained_variance_[0]
    squared = np.square(some - pca.mean_).sum(axis=1)
    return Directions(
        torch.as_tensor(pca.mean_, dtype=torch.float32),
        torch.as_tensor(pca.components_[wide].T.copy(), dtype=torch.float32),
        torch.as_tensor(np.sqrt(pca.explained_variance_[wide]), dtype=torch.float32),
        # E|x - y|^2 = 2 E|x - centre|^2; the median, unless most vectors are one and the same
        2 * float(np.median(squared) or np.mean(squared)),
    )


def _some(vectors: Tensor, seed: int) -> Tensor:
    if len(vectors) <= ENOUGH:
        return vectors
    order = torch.randperm(len(vectors), generator=torch.Generator().manual_seed(seed))
    return vectors[order[:ENOUGH].sort().values]
