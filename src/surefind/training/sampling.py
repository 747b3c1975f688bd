"""Sampling of batches: a function of seed and step, so that any step can be repeated."""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from surefind.images.matches import ByLabel, Matches

Rows = NDArray[np.int64]
MOST_TRIPLETS = 1 << 20  # in a batch of images with positions


class Stream(IntEnum):
    """Independent streams of random numbers."""

    BATCH = 0
    CACHE = 1
    VIEW = 2
    CLASSES = 3


def rng(seed: int, stream: Stream, step: int) -> np.random.Generator:
    return np.random.default_rng([seed, stream, step])


class BatchPlan(NamedTuple):
    """Rows of the catalog for one step, with labels (all triplets) or explicit triplets."""

    rows: Rows
    labels: Rows | None = None
    triplets: Rows | None = None  # (3, T) positions in `rows`

    def keep(self, positions: Rows) -> Self:
        """Drop the images that could not be read, and their triplets."""
        if len(positions) == len(self.rows):
            return self
        labels = None if self.labels is None else self.labels[positions]
        triplets = self.triplets
        if triplets is not None:
            number = np.full(len(self.rows), -1, dtype=np.int64)
            number[positions] = np.arange(len(positions))
            triplets = number[triplets]
            triplets = triplets[:, (triplets >= 0).all(axis=0)]
        return self._replace(rows=self.rows[positions], labels=labels, triplets=triplets)

    def has_triplet(self) -> bool:
        if self.triplets is not None:
            return self.triplets.size > 0
        assert self.labels is not None
        counts = np.unique(self.labels, return_counts=True)[1]
        return len(counts) > 1 and bool((counts > 1).any())

    def arguments(self, device: torch.device) -> dict[str, Any]:
        """Keyword arguments of the loss."""
        if self.triplets is not None:
            return {"triplets": tuple(torch.from_numpy(self.triplets).to(device))}
        return {"labels": torch.from_numpy(self.labels).to(device)}


@dataclass(frozen=True)
class BalancedBatches:
    """`images` images of each of `classes` classes or places, with every triplet among them."""

    matches: Matches
    rows: Rows  # of the catalog, that may be drawn
    classes: int
    images: int
    seed: int

    def plan(self, step: int) -> BatchPlan:
        random = rng(self.seed, Stream.BATCH, step)
        if not isinstance(self.matches, ByLabel):
            return self._place_batch(random)
        count = len(self._members)
        chosen = random.choice(count, min(self.classes, count), replace=False)
        classes = [self._members[number] for number in chosen]
        rows = [random.choice(some, min(self.images, len(some)), replace=False) for some in classes]
        together = np.concatenate(rows)
        return BatchPlan(together, labels=self.matches.codes[together])

    @cached_property
    def _members(self) -> list[Rows]:
        """Rows of each class that has two or more."""
        assert isinstance(self.matches, ByLabel)
        codes = self.matches.codes[self.rows]
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order])) + 1
        return [rows for rows in np.split(self.rows[order], starts) if len(rows) > 1]

    def _place_batch(self, random: np.random.Generator) -> BatchPlan:
        allowed = np.zeros(int(self.rows.max()) + 1, dtype=bool)
        allowed[self.rows] = True
        rows: list[Rows] = []
        for anchor in random.permutation(self.rows):
            near = self.matches.positives(int(anchor))
            near = near[near <= self.rows.max()]
            near = near[allowed[near]]
            if len(near):
                take = min(self.images - 1, len(near))
                rows.append(np.append(random.choice(near, take, replace=False), anchor))
            if len(rows) == self.classes:
                break
        together = np.unique(np.concatenate(rows))
        return BatchPlan(together, triplets=all_triplets(self.matches, together, random))


def all_triplets(matches: Matches, rows: Rows, random: np.random.Generator) -> Rows:
    """Return all triplets as positions in `rows`, (3, T), or a random million of them."""
    same = matches.is_match(rows, rows)
    np.fill_diagonal(same, False)
    differs = matches.is_negative(rows, rows)
    anchor, positive, negative = np.nonzero(same[:, :, None] & differs[:, None, :])
    triplets = np.stack([anchor, positive, negative])
    if triplets.shape[1] > MOST_TRIPLETS:
        triplets = random.choice(triplets, MOST_TRIPLETS, replace=False, axis=1)
    return triplets
