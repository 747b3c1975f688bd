"""An ensemble of small variance heads that read fixed vectors."""

import math
from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor, nn

from surefind.embeddings import LARGEST_SPREAD, SMALLEST_SPREAD
from surefind.errors import InvalidArgument, InvalidFile
from surefind.search.doubt.directions import Directions

HIDDEN = 16
EASY = 2.0  # how far a log variance goes from its start before it grows ever more slowly
FARTHEST = 10.0  # that an input may be from its mean, in standard deviations: bounds variances
FLOOR = 1e-3  # of what lies outside the directions, relative to the whole: less is rounding


class VarianceHeads(nn.Module):
    r"""log var_m(x) = initial + E asinh((f_m(z) + g_m(z)) / E),  f, g: one hidden layer each.

    z: the coordinates of x along P principal directions, whitened, and the log of the squared
    length that lies outside them, without which a foreign vector looks like an average one.
    f_m is learned; g_m is random and stays: heads learn to cancel it where there are vectors and
    so disagree where there are none (randomised priors, Osband et al. 2018). asinh rather than
    tanh: at a hard bound all would agree again.

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

    def __init__(self, dim: int, directions: int, heads: int, *, hidden: int = HIDDEN) -> None:
        super().__init__()
        inputs = directions + 1
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
        """Heads that have learned nothing yet; `initial` is the log variance they start near."""
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
        """z, (N, P + 1)."""
        _check_vectors(vectors, len(self.centre))
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
        """How vague each vector is: the geometric mean over heads, (N,)."""
        log_var: Tensor = self(vectors).mean(dim=1)
        return log_var.exp().clamp(SMALLEST_SPREAD, LARGEST_SPREAD)

    @torch.no_grad()
    def disagreement(self, vectors: Tensor) -> Tensor:
        """How unsure that is: the standard deviation over heads of the log variance, (N,)."""
        return spread_over_heads(self(vectors))

    def tensors(self) -> dict[str, Tensor]:
        """What `from_tensors` needs to make the same heads."""
        return {name: value.detach().cpu().clone() for name, value in self.state_dict().items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The heads whose `tensors` these are."""
        made = cls._of_shape(tensors)
        wanted = made.state_dict()
        for name in sorted(wanted.keys() | tensors.keys()):
            if name not in wanted or name not in tensors:
                raise _damaged(f"{name} is {'missing' if name in wanted else 'unknown'}")
            found, shape = tensors[name], tuple(wanted[name].shape)
            if tuple(found.shape) != shape:
                raise _damaged(f"{name} has shape {tuple(found.shape)}, expected {shape}")
            if not found.is_floating_point() or not found.isfinite().all():
                raise _damaged(f"{name} holds numbers that are not finite")
        made.load_state_dict(dict(tensors))
        return made.requires_grad_(False).eval()

    @classmethod
    def _of_shape(cls, tensors: Mapping[str, Tensor]) -> Self:
        projection, weight = tensors.get("projection"), tensors.get("weight_in")
        if projection is None or projection.ndim != 2:
            raise _damaged("projection is missing or not a matrix")
        if weight is None or weight.ndim != 3:
            raise _damaged("weight_in is missing or not three-dimensional")
        dim, directions = projection.shape
        return cls(dim, directions, weight.shape[0], hidden=weight.shape[2])

    def _split(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Whitened coordinates (N, P), and log(|rest|^2 + floor) (N,) of what they leave out."""
        centred = vectors - self.centre
        along = centred @ self.projection
        rest = centred.square().sum(1) - (along * self.std).square().sum(1)
        return along, (rest.clamp(min=0) + self.outside[0]).log()


def spread_over_heads(log_var: Tensor, counted: Tensor | None = None) -> Tensor:
    r"""Standard deviation over the counted heads, (N, M) -> (N,).

    Divided by c4(n) = sqrt(2 / (n - 1)) Gamma(n / 2) / Gamma((n - 1) / 2), its bias for n normal
    values, so that the spread over few heads compares with that over many.
    """
    weight = torch.ones_like(log_var) if counted is None else counted.to(log_var.dtype)
    n = weight.sum(1)
    centre = (log_var * weight).sum(1) / n
    squared = ((log_var - centre[:, None]).square() * weight).sum(1)
    bias = (torch.lgamma(n / 2) - torch.lgamma((n - 1) / 2)).exp()
    return squared.sqrt() / (math.sqrt(2) * bias)


def _check_vectors(vectors: Tensor, dim: int) -> None:
    if vectors.ndim != 2 or vectors.shape[1] != dim:
        raise InvalidArgument(
            "vectors",
            expected=f"shape (N, {dim}), as the heads were fitted to",
            got=f"shape {tuple(vectors.shape)}",
            fix="use vectors of the same encoder, one per row",
        )


def _damaged(problem: str) -> InvalidFile:
    return InvalidFile(f"these are no variance heads: {problem}", fix="calibrate again")
