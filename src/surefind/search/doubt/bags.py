"""Which classes each head learns from: every class stays unseen by half of the heads."""

import torch
from torch import Tensor


def halve_classes(sizes: Tensor, heads: int, *, generator: torch.Generator) -> Tensor:
    """(C, heads): whether a head learns from a class, given the number of vectors of each (C,).

    Heads 2i and 2i + 1 learn from the two halves of the i-th random halving. Classes of one
    vector, which can only be negatives, are halved apart from those with pairs.
    """
    sees = torch.zeros(len(sizes), heads, dtype=torch.bool)
    kinds = [kind.nonzero().squeeze(1) for kind in (sizes > 1, sizes <= 1)]
    for first in range(0, heads, 2):
        for kind in kinds:
            mixed = kind[torch.randperm(len(kind), generator=generator)]
            sees[mixed[0::2], first] = True
            sees[mixed[1::2], first + 1] = True
    return sees
