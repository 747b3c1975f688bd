"""Made-up galleries that are as hard to search as real ones."""

import torch

import surefind as sf


def made_up(count: int, dim: int, *, seed: int = 0, per_class: int = 50) -> sf.Gaussians:
    """The embeddings of `made_up_classes`, without their classes."""
    return made_up_classes(count, dim, seed=seed, per_class=per_class)[0]


def made_up_classes(count: int, dim: int, *, seed: int = 0, per_class: int = 50) -> tuple[sf.Gaussians, torch.Tensor]:
    """Classes in a space whose directions matter less and less, as those of photos do.

    With variances falling as 1/i the participation ratio is about 30; embeddings of CUB-200 in 511
    dimensions have 34 to 49. Half of the variance is between classes. Variances of images differ
    by a factor of three, as they do there.
    """
    draw = torch.Generator().manual_seed(seed)
    world = torch.Generator().manual_seed(-1)  # the same for galleries and queries
    scale = torch.arange(1, dim + 1).rsqrt()
    centres = torch.randn(max(1, 100_000 // per_class), dim, generator=world)
    mean, labels = torch.empty(count, dim), torch.empty(count, dtype=torch.int64)
    for start in range(0, count, 100_000):
        end = min(count, start + 100_000)
        classes = torch.randint(len(centres), (end - start,), generator=draw)
        labels[start:end] = classes
        own = torch.randn(end - start, dim, generator=draw)
        mean[start:end] = torch.nn.functional.normalize((centres[classes] + own) * scale, dim=1)
    var = (0.5 + torch.rand(count, generator=draw)) * 0.4 / dim
    return sf.Gaussians(mean, var), labels
