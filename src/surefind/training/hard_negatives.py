"""Cache of hard negatives: means of some images, searched for near images of other classes."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.images.matches import Matches
from surefind.training.sampling import BatchPlan, Rows, Stream, rng


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
        from faiss import IndexFlatL2

        index = IndexFlatL2(self.means.shape[1])
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

    def _of_anchor(
        self, anchor: int, near: NDArray[np.float32], others: Rows, random: np.random.Generator
    ) -> Rows:
        """(3, up to `negatives`) positions in the cache."""
        positive = int(random.choice(self._positives[anchor]))
        cache = self.cache
        d_ap = float(np.square(cache.means[anchor] - cache.means[positive]).sum())
        is_negative = self.matches.is_negative(cache.rows[[anchor]], cache.rows[others])[0]
        violating = d_ap - near + self.margin > 0
        negatives = others[is_negative & violating][: self.negatives]
        return np.stack(
            [np.full_like(negatives, anchor), np.full_like(negatives, positive), negatives]
        )

    def _as_plan(self, found: list[Rows]) -> BatchPlan:
        if not found:
            nothing = np.zeros((3, 0), dtype=np.int64)
            return BatchPlan(nothing[0], triplets=nothing)
        triplets = np.concatenate(found, axis=1)
        positions, renumbered = np.unique(triplets, return_inverse=True)
        return BatchPlan(self.cache.rows[positions], triplets=renumbered.reshape(triplets.shape))
