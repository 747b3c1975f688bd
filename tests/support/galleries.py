"""Random rows to put into engines and indexes."""

import hashlib

import torch

from surefind.embeddings import Embeddings, Gaussians, VonMisesFisher
from surefind.engines.base import Rows

FAMILIES = (Gaussians.family, VonMisesFisher.family)


def random_embeddings(
    count: int, dim: int, seed: int, *, family: str = Gaussians.family, spread: float = 1.0
) -> Embeddings:
    """Means on the sphere; log variances that differ by some `spread`, around 1/dim."""
    draw = torch.Generator().manual_seed(seed)
    mean = torch.nn.functional.normalize(torch.randn(count, dim, generator=draw), dim=1)
    var = torch.exp(spread * torch.randn(count, generator=draw)) * 0.5 / dim
    if family == VonMisesFisher.family:
        return VonMisesFisher(mean, 1 / var)
    return Gaussians(mean, var)


def random_rows(
    count: int, dim: int, seed: int, *, family: str = Gaussians.family, prefix: str = "row"
) -> Rows:
    """Rows with metadata of every kind, some of it missing."""
    metadata = [
        {"path": f"/pictures/{prefix}-{n}.jpg", "label": "abc"[n % 3], "year": 2000 + n % 7}
        | ({"blurred": n % 2 == 0} if n % 5 else {})
        | ({"weight": n / 4} if n % 4 else {})
        for n in range(count)
    ]
    return Rows(
        ids=tuple(f"{prefix}-{n}" for n in range(count)),
        embeddings=random_embeddings(count, dim, seed, family=family),
        digests=tuple(
            hashlib.sha256(f"{prefix} {n} {seed}".encode()).hexdigest() if n % 6 else ""
            for n in range(count)
        ),
        metadata=tuple(metadata),
    )
