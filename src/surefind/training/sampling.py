"""Sampling of batches, balanced or of tuples with hard negatives.

A batch is a function of seed and step, so that any step can be repeated. Hard negatives come from
a cache: the means of some images, searched for near images of other classes.
"""

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
        rows: list[Rows] = []
        for anchor in random.permutation(self.rows):
            near = self.matches.positives(int(anchor))
            near = near[np.isin(near, self.rows)]
            if len(near):
                take = min(self.images - 1, len(near))
                rows.append(np.append(random.choice(near, take, replace=False), anchor))
            if len(rows) == self.classes:
                break
        together = np.unique(np.concatenate(rows))
        return BatchPlan(together, triplets=all_triplets(self.matches, together, random))


def all_triplets(matches: Matches, rows: Rows, random: np.random.Generator) -> Rows:
    """Return all triplets as positions in `rows`, (3, T), or a random million of them."""
    same, differs = matches.is_match(rows, rows), matches.is_negative(rows, rows)
    anchor, positive, negative = np.nonzero(same[:, :, None] & differs[:, None, :])
    triplets = np.stack([anchor, positive, negative])
    if triplets.shape[1] > MOST_TRIPLETS:
        triplets = random.choice(triplets, MOST_TRIPLETS, replace=False, axis=1)
    return triplets


def choose_cached_rows(matches: Matches, rows: Rows, *, size: int, seed: int, step: int) -> Rows:
    """Return at most `size` random rows, each together with a match where it has one."""
    if len(rows) <= size:
        return np.sort(rows)
    random = rng(seed, Stream.CACHE, step)
    allowed, chosen = set(rows.tolist()), set[int]()
    for row in random.permutation(rows).tolist():
        partners = [other for other in matches.positives(row).tolist() if other in allowed]
        pair = {row, int(random.choice(partners))} if partners else {row}
        if len(chosen | pair) <= size:
            chosen |= pair
        if len(chosen) >= size - 1:
            break
    return np.array(sorted(chosen), dtype=np.int64)


@dataclass(frozen=True)
class NegativeCache:
    """Means (n, D) of some rows of the catalog, as the encoder embedded them at one step."""

    rows: Rows
    means: NDArray[np.float32]

    @cached_property
    def _index(self) -> Any:
        from surefind._faiss import faiss

        index = faiss.IndexFlatL2(self.means.shape[1])
        index.add(self.means)
        return index

    def nearest(self, positions: Rows, k: int) -> tuple[NDArray[np.float32], Rows]:
        """Return squared distances of means and positions in the cache, nearest first."""
        distances, found = self._index.search(self.means[positions], min(k, len(self.rows)))
        return distances, found


@dataclass(frozen=True)
class TupleBatches:
    """Tuples of an anchor, a positive and its nearest violating negatives, out of a cache."""

    matches: Matches
    cache: NegativeCache
    tuples: int
    negatives: int
    margin: float  # of the loss: d_ap - d_an + margin > 0 violates
    seed: int

    def plan(self, step: int) -> BatchPlan:
        """Return at most `tuples` tuples; fewer, or none, if too few triplets violate."""
        random = rng(self.seed, Stream.BATCH, step)
        found: list[Rows] = []
        anchors = random.permutation(self._anchors)
        for start in range(0, len(anchors), 2 * self.tuples):
            some = anchors[start : start + 2 * self.tuples]
            near, others = self.cache.nearest(some, self._neighbours)
            for anchor, distances, positions in zip(some, near, others, strict=True):
                triplets = self._of_anchor(int(anchor), distances, positions, random)
                if triplets.shape[1]:
                    found.append(triplets)
                if len(found) == self.tuples:
                    return self._as_plan(found)
        return self._as_plan(found)

    @cached_property
    def _positives(self) -> dict[int, Rows]:
        """Matches of each anchor, as positions in the cache."""
        number = {int(row): position for position, row in enumerate(self.cache.rows)}
        found = {}
        for row, position in number.items():
            matching = self.matches.positives(row).tolist()
            if near := [number[other] for other in matching if other in number]:
                found[position] = np.array(near, dtype=np.int64)
        return found

    @cached_property
    def _anchors(self) -> Rows:
        return np.array(sorted(self._positives), dtype=np.int64)

    @cached_property
    def _neighbours(self) -> int:
        """Neighbours that surely hold `negatives` negatives: an anchor's others are its matches."""
        positives = max((len(near) for near in self._positives.values()), default=0)
        return 1 + positives + self.negatives

    def _of_anchor(self, anchor: int, near: NDArray[np.float32], others: Rows, random: np.random.Generator) -> Rows:
        """(3, up to `negatives`) positions in the cache."""
        positive = int(random.choice(self._positives[anchor]))
        cache = self.cache
        d_ap = float(np.square(cache.means[anchor] - cache.means[positive]).sum())
        is_negative = self.matches.is_negative(cache.rows[[anchor]], cache.rows[others])[0]
        violating = d_ap - near + self.margin > 0
        negatives = others[is_negative & violating][: self.negatives]
        return np.stack([np.full_like(negatives, anchor), np.full_like(negatives, positive), negatives])

    def _as_plan(self, found: list[Rows]) -> BatchPlan:
        if not found:
            nothing = np.zeros((3, 0), dtype=np.int64)
            return BatchPlan(nothing[0], triplets=nothing)
        triplets = np.concatenate(found, axis=1)
        positions, renumbered = np.unique(triplets, return_inverse=True)
        return BatchPlan(self.cache.rows[positions], triplets=renumbered.reshape(triplets.shape))
