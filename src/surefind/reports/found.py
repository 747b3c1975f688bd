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
    difficulty: Tensor | None = None  # (Q,) where the data knows how corrupted an image is

    @property
    def queries(self) -> int:
        """How many, the foreign ones included."""
        return len(self.hits) + sum(len(signal) for signal in list(self.foreign.values())[:1])

    def sample(self, share: float, *, seed: int) -> Self:
        """A random share of both kinds of queries."""
        generator = torch.Generator().manual_seed(seed)
        strangers = self.queries - len(self.hits)
        own, foreign = (
            torch.randperm(n, generator=generator)[: round(share * n)]
            for n in (len(self.hits), strangers)
        )
        return type(self)(
            self.hits[own],
            self.n_matches[own],
            {name: signal[own] for name, signal in self.signals.items()},
            {name: signal[foreign] for name, signal in self.foreign.items()},
            {name: probability[own] for name, probability in self.probability.items()},
            None if self.difficulty is None else self.difficulty[own],
        )
