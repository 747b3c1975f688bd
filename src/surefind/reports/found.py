"""What one ranking gave: hits, and how unsure it was."""

from collections.abc import Mapping
from typing import NamedTuple, Self

import torch
from torch import Tensor

from surefind.reports.signals import Signals


class Found(NamedTuple):
    """Of the scored queries (Q) and of the foreign ones (F)."""

    hits: Tensor  # (Q, K) bool, nearest first
    n_matches: Tensor  # (Q,)
    signals: Signals  # (Q,) each
    foreign: Signals  # (F,) each; empty without foreign queries
    probability: Mapping[str, Tensor]  # (Q,) cross-fitted, by signal; those that could be fitted
    groups: Tensor  # (Q,) classes, or every query its own: what intervals resample
    foreign_groups: Tensor  # (F,) likewise, none of them a group of (Q,)
    difficulty: Tensor | None = None  # (Q,) where the data knows how corrupted an image is

    def sample(self, share: float, *, seed: int) -> Self:
        """The queries of a random share of the groups, of own ones and of foreign ones."""
        generator = torch.Generator().manual_seed(seed)
        own, foreign = (
            _of_some(groups, share, generator) for groups in (self.groups, self.foreign_groups)
        )
        return type(self)(
            self.hits[own],
            self.n_matches[own],
            {name: signal[own] for name, signal in self.signals.items()},
            {name: signal[foreign] for name, signal in self.foreign.items()},
            {name: probability[own] for name, probability in self.probability.items()},
            self.groups[own],
            self.foreign_groups[foreign],
            None if self.difficulty is None else self.difficulty[own],
        )


def _of_some(groups: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """The queries of a random share of the groups, as row numbers."""
    found, of_query = groups.unique(return_inverse=True)
    taken = torch.zeros(len(found), dtype=torch.bool)
    taken[torch.randperm(len(found), generator=generator)[: round(share * len(found))]] = True
    return taken[of_query].nonzero().squeeze(1)
