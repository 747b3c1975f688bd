"""Ensemble of small networks that predict the variance of fixed vectors."""

import math
from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from surefind.embeddings import LARGEST_SPREAD, SMALLEST_SPREAD

HIDDEN = 16
EASY = 2.0  # scale of the asinh that limits a log variance
FARTHEST = 10.0  # standard deviations at which inputs are clipped
FLOOR = 1e-3  # of the squared length outside the directions, relative to the whole
ENOUGH = 8192  # vectors used to find directions
FLATTEST = 1e-6  # smallest variance of a direction, relative to the first


class Directions(NamedTuple):
    """Principal directions of unlabelled vectors, by decreasing variance."""

    centre: Tensor  # (D,)
    axes: Tensor  # (D, K), of length 1
    std: Tensor  # (K,) of the vectors along each
    scale: float  # a typical squared distance between two vectors

    def coordinates(self, vectors: Tensor) -> Tensor:
        """Coordinates (N, K), scaled so that a typical squared distance is 1."""
        return (vectors - self.centre) @ self.axes / math.sqrt(self.scale)

    def first(self, count: int) -> "Directions":
        """The first `count` directions."""
        return self._replace(axes=self.axes[:, :count], std=self.std[:count])


def find_directions(vectors: Tensor, *, most: int, seed: int) -> Directions:
    """At most `most` principal directions of vectors (N, D)."""
    # Imported here: searches load heads but never fit directions.
    from sklearn.decomposition import PCA  # type: ignore[import-untyped]

    if len(vectors) > ENOUGH:
        order = torch.randperm(len(vectors), generator=torch.Generator().manual_seed(seed))
        vectors = vectors[order[:ENOUGH].sort().values]
    some = vectors.double().numpy()
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


class VarianceHeads(nn.Module):
    r"""log var_m(x) = initial + E asinh((f_m(z) + g_m(z)) / E),  f, g: one hidden layer each.

    z: the coordinates of x along P principal directions, whitened, and the log of the squared
    length outside them, without which an out-of-distribution vector looks like an average one.
    f_m is learned; g_m is random and fixed: heads cancel it near training vectors and differ
    elsewhere (randomised priors, Osband et al. 2018). asinh has no hard bound, unlike tanh.

    `var` is that of an isotropic Gaussian around x, per dimension, in squared units of x.
    """

    centre: Tensor
    projection: Tensor
    std: Tensor
    outside: Tensor
    initial: Tensor
    prior_in: Tensor
    prior_bias: Tensor
    prior_out: Tensor

    def __init__(self, dim: int, directions: int, heads: int) -> None:
        super().__init__()
        inputs, hidden = directions + 1, HIDDEN
        self.register_buffer("centre", torch.zeros(dim))
        self.register_buffer("projection", torch.zeros(dim, directions))  # whitening
        self.register_buffer("std", torch.ones(directions))  # before whitening
        self.register_buffer("outside", torch.ones(3))  # floor; mean and std of the log
        self.register_buffer("initial", torch.zeros(()))
        self.register_buffer("prior_in", torch.zeros(heads, inputs, hidden))
        self.register_buffer("prior_bias", torch.zeros(heads, 1, hidden))
        self.register_buffer("prior_out", torch.zeros(heads, hidden, 1))
        self.weight_in = nn.Parameter(torch.zeros(heads, inputs, hidden))
        self.bias_in = nn.Parameter(torch.zeros(heads, 1, hidden))
        self.weight_out = nn.Parameter(torch.zeros(heads, hidden, 1))
        self.bias_out = nn.Parameter(torch.zeros(heads, 1, 1))

    @classmethod
    @torch.no_grad()
    def start(
        cls, vectors: Tensor, directions: Directions, *, heads: int, initial: float, seed: int
    ) -> Self:
        """Untrained heads with log variances near `initial`."""
        dim, width = directions.axes.shape
        made = cls(dim, width, heads)
        made.centre.copy_(directions.centre)
        made.projection.copy_(directions.axes / directions.std)
        made.std.copy_(directions.std)
        made.initial.fill_(initial)
        made.outside[0] = FLOOR * (vectors - made.centre).square().sum(1).mean()
        _, outside = made._split(vectors)
        made.outside[1], made.outside[2] = outside.mean(), outside.std().clamp(min=0.1)
        generator = torch.Generator().manual_seed(seed)
        inputs = width + 1
        for name, size in (
            ("weight_in", inputs**-0.5),
            ("weight_out", 0.1 * HIDDEN**-0.5),
            ("prior_in", inputs**-0.5),
            ("prior_bias", 1.0),
            ("prior_out", 2 * HIDDEN**-0.5),
        ):
            getattr(made, name).normal_(generator=generator).mul_(size)
        return made

    def __len__(self) -> int:
        return len(self.bias_out)

    def forward(self, vectors: Tensor) -> Tensor:
        """Log variances (N, M) of vectors (N, D)."""
        return self.read(self.inputs(vectors)).T

    def inputs(self, vectors: Tensor) -> Tensor:
        """Inputs z, (N, P + 1)."""
        along, outside = self._split(vectors.to(self.centre))
        outside = (outside - self.outside[1]) / self.outside[2]
        return torch.cat([along, outside[:, None]], dim=1).clamp(-FARTHEST, FARTHEST)

    def read(self, inputs: Tensor) -> Tensor:
        """Log variances (M, n) of inputs (n, P + 1), or of (M, n, P + 1), some for each head."""
        learned = (inputs @ self.weight_in + self.bias_in).relu() @ self.weight_out + self.bias_out
        prior = (inputs @ self.prior_in + self.prior_bias).relu() @ self.prior_out
        return self.initial + EASY * ((learned + prior) / EASY).asinh().squeeze(-1)

    @torch.no_grad()
    def var(self, vectors: Tensor) -> Tensor:
        """Variance of each vector, (N,): the geometric mean over heads."""
        log_var: Tensor = self(vectors).mean(dim=1)
        return log_var.exp().clamp(SMALLEST_SPREAD, LARGEST_SPREAD)

    def tensors(self) -> dict[str, Tensor]:
        """State for `from_tensors`."""
        return {name: value.detach().cpu().clone() for name, value in self.state_dict().items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Restore heads from `tensors()`."""
        (dim, directions), heads = tensors["projection"].shape, len(tensors["weight_in"])
        made = cls(dim, directions, heads)
        made.load_state_dict(dict(tensors))
        return made.requires_grad_(False).eval()

    def _split(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Whitened coordinates (N, P), and log(|rest|^2 + floor) (N,) of what they leave out."""
        centred = vectors - self.centre
        along = centred @ self.projection
        rest = centred.square().sum(1) - (along * self.std).square().sum(1)
        return along, (rest.clamp(min=0) + self.outside[0]).log()
