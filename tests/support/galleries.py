"""Random rows to put into engines and indexes."""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch

from surefind.embeddings import Embeddings, Gaussians, VonMisesFisher
from surefind.engines.base import Rows
from surefind.engines.filters import Metadata

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


def clustered_embeddings(count: int, dim: int, seed: int, *, classes: int = 50) -> Gaussians:
    """Embeddings of these classes in turn; the classes are the same for every seed."""
    centres = torch.randn(classes, dim, generator=torch.Generator().manual_seed(1000))
    draw = torch.Generator().manual_seed(seed)
    mean = centres[torch.arange(count) % classes] + 0.4 * torch.randn(count, dim, generator=draw)
    return Gaussians(mean, 0.01 + 0.1 * torch.rand(count, generator=draw))


def plain_rows(
    embeddings: Embeddings,
    *,
    ids: Sequence[str] | None = None,
    digests: Sequence[str] | None = None,
    metadata: Sequence[Metadata] | None = None,
) -> Rows:
    """Rows with these columns; ids are row numbers, other columns empty by default."""
    count = len(embeddings)
    return Rows(
        tuple(map(str, range(count)) if ids is None else ids),
        embeddings,
        tuple(digests or ("",) * count),
        tuple(metadata or ({},) * count),
    )


def recall(found: np.ndarray, wanted: np.ndarray) -> float:
    """Share of the wanted rows of each query that were found, both (Q, K)."""
    pairs = zip(found.tolist(), wanted.tolist(), strict=True)
    return sum(len({*ours} & {*theirs}) for ours, theirs in pairs) / wanted.size


def random_rows(count: int, dim: int, seed: int, *, family: str = Gaussians.family, prefix: str = "row") -> Rows:
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
            hashlib.sha256(f"{prefix} {n} {seed}".encode()).hexdigest() if n % 6 else "" for n in range(count)
        ),
        metadata=tuple(metadata),
    )
