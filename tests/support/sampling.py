"""Random embeddings, and random vectors from them, made by other means than the package's."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

import surefind as sf


@dataclass(frozen=True)
class Draw:
    generator: torch.Generator

    def gaussians(self, count: int, dim: int, *, scale: float = 1.0, var: float = 1.0) -> sf.Gaussians:
        """As in the paper's simulation: normal means, variances |normal|."""
        mean = scale * torch.randn(count, dim, generator=self.generator, dtype=torch.float64)
        spread = torch.randn(count, generator=self.generator, dtype=torch.float64).abs() + 0.01
        return sf.Gaussians(mean, var * spread)

    def spheres(self, count: int, dim: int, *, kappa: float = 10.0) -> sf.VonMisesFisher:
        mean = torch.randn(count, dim, generator=self.generator, dtype=torch.float64)
        spread = 0.5 + torch.rand(count, generator=self.generator, dtype=torch.float64)
        return sf.VonMisesFisher(torch.nn.functional.normalize(mean, dim=1), kappa * spread)

    def samples(self, batch: sf.Embeddings, count: int) -> Tensor:
        """(count, N, D) vectors drawn from the distributions of the batch."""
        normal = torch.randn(count, len(batch), batch.dim, generator=self.generator, dtype=torch.float64)
        if isinstance(batch, sf.Gaussians):
            return batch.mean + batch.var.sqrt()[:, None] * normal
        columns = [
            self._sphere_samples(mean, float(kappa), normal[:, i])
            for i, (mean, kappa) in enumerate(zip(batch.mean, batch.spread, strict=True))
        ]
        return torch.stack(columns, dim=1)

    def _sphere_samples(self, mean: Tensor, kappa: float, normal: Tensor) -> Tensor:
        """Wood's (1994) rejection sampler."""
        count, dim = normal.shape
        b = (dim - 1) / (2 * kappa + math.sqrt(4 * kappa**2 + (dim - 1) ** 2))
        x0 = (1 - b) / (1 + b)
        c = kappa * x0 + (dim - 1) * math.log(1 - x0**2)
        shape = torch.full((count,), (dim - 1) / 2, dtype=torch.float64)
        cos = torch.full((count,), math.nan, dtype=torch.float64)
        while bool(cos.isnan().any()):
            gammas = [torch._standard_gamma(shape, generator=self.generator) for _ in range(2)]
            z = gammas[0] / (gammas[0] + gammas[1])
            proposal = (1 - (1 + b) * z) / (1 - (1 - b) * z)
            uniform = torch.rand(count, generator=self.generator, dtype=torch.float64)
            accept = kappa * proposal + (dim - 1) * torch.log(1 - x0 * proposal) - c >= uniform.log()
            cos = torch.where(cos.isnan() & accept, proposal, cos)
        across = normal - (normal @ mean)[:, None] * mean
        across = across / across.norm(dim=1, keepdim=True)
        return cos[:, None] * mean + torch.sqrt(1 - cos * cos)[:, None] * across


def tau(anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    return (anchor - positive).square().sum(-1) - (anchor - negative).square().sum(-1)
