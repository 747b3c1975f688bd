"""Triplets that can go wrong: an anchor, one of its nearest matches, one of its nearest others."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from surefind.functional.distance import squared_distances

MATCHES, OTHERS = 5, 10  # the nearest, of which one is drawn; distant ones teach nothing
MOST = 3000  # vectors that one head learns from: the distances of all pairs are needed


class HardTriplets(NamedTuple):
    """Rows of vectors. What is nearest is known once and for all, since means never move."""

    anchors: Tensor  # (A,)
    matches: Tensor  # (A, up to MATCHES), the nearest first
    found: Tensor  # (A,) how many matches there are
    others: Tensor  # (A, up to OTHERS)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Anchor, match and other of random triplets, (3, count)."""
        chosen = torch.randint(len(self.anchors), (count,), generator=generator)
        match = torch.rand(count, generator=generator) * self.found[chosen]
        other = torch.randint(self.others.shape[1], (count,), generator=generator)
        sides = (
            self.anchors[chosen],
            self.matches[chosen, match.long()],
            self.others[chosen, other],
        )
        return torch.stack(sides)


def hard_triplets(
    means: Tensor, codes: Tensor, rows: Tensor, *, generator: torch.Generator
) -> HardTriplets:
    """Of these rows of the means (N, K), of which at most `MOST` are looked at."""
    rows = _thinned(codes, rows, generator)
    distances = squared_distances(means[rows], means[rows])
    same = codes[rows][:, None] == codes[rows]
    others = distances.masked_fill(same, math.inf)
    matches = distances.masked_fill(~same.fill_diagonal_(False), math.inf)
    gap, nearest = matches.topk(min(MATCHES, len(rows)), largest=False)
    found = gap.isfinite().sum(1)
    # A row has fewer others than OTHERS only where there are few rows: as many as all have.
    count = min(OTHERS, int(others.isfinite().sum(1).min()))
    near = others.topk(count, largest=False).indices
    usable = found > 0
    return HardTriplets(rows[usable], rows[nearest[usable]], found[usable], rows[near[usable]])


def _thinned(codes: Tensor, rows: Tensor, generator: torch.Generator) -> Tensor:
    """At most `MOST` rows, by whole pairs: each class gives its first, then its second, ..."""
    if len(rows) <= MOST:
        return rows
    rows = rows[torch.randperm(len(rows), generator=generator)]
    rows = rows[codes[rows].sort(stable=True).indices]
    _, sizes = codes[rows].unique_consecutive(return_counts=True)
    starts = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    place = torch.arange(len(rows)) - starts
    mixed = torch.randperm(len(sizes), generator=generator).repeat_interleave(sizes)
    rounds = place // 2 * len(sizes) + mixed  # pairs in turn, classes in random order
    return rows[rounds.sort(stable=True).indices[:MOST]].sort().values
