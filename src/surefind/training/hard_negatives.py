"""The cache of hard negatives: some images with their embeddings, searched for near strangers."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from surefind.embeddings import FAMILIES, Embeddings, VonMisesFisher
from surefind.functional.triplet import triplet_log_prob
from surefind.images.matches import Matches
from surefind.training.sampling import BatchPlan, Rows, Stream, rng

Chances = NDArray[np.float64]


def choose_cached_rows(matches: Matches, rows: Rows, *, size: int, seed: int, step: int) -> Rows:
    """Random images, each with a match of its own where it has one, at most `size` in all."""
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
    """Embeddings of some rows of the catalog as they were at one step."""

    rows: Rows
    embeddings: Embeddings
    step: int

    @cached_property
    def means(self) -> NDArray[np.float32]:
        return self.embeddings.mean.float().numpy()

    @cached_property
    def var(self) -> NDArray[np.float64]:
        spread = self.embeddings.spread.double().numpy()
        return 1 / spread if isinstance(self.embeddings, VonMisesFisher) else spread

    @cached_property
    def _index(self) -> Any:
        from faiss import IndexFlatL2

        index = IndexFlatL2(self.means.shape[1])
        index.add(self.means)
        return index

    def nearest(self, positions: Rows, k: int) -> tuple[NDArray[np.float32], Rows]:
        """Squared distances of means and positions in the cache, nearest first."""
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
    candidates: int
    seed: int
    uncertainty: Literal["ignore", "weight", "skip"] = "ignore"
    skip_share: float = 0.1
    skip_above: float = 0.95

    def plan(self, step: int) -> BatchPlan:
        """At most `tuples` tuples; fewer, or none, when too few triplets violate."""
        random = rng(self.seed, Stream.BATCH, step)
        found: list[Rows] = []
        anchors = random.permutation(self._anchors)
        for start in range(0, len(anchors), 2 * self.tuples):
            some = anchors[start : start + 2 * self.tuples]
            near, others = self.cache.nearest(some, self.candidates + self._most_positives)
            for anchor, distances, positions in zip(some, near, others, strict=True):
                triplets = self._of_anchor(int(anchor), distances, positions, random)
                if triplets.shape[1]:
                    found.append(triplets)
                if len(found) == self.tuples:
                    return self._as_plan(found)
        return self._as_plan(found)

    @cached_property
    def _usable(self) -> NDArray[np.bool_]:
        """Which of the cache may be part of a triplet: not the vaguest, if those are skipped."""
        if self.uncertainty != "skip":
            return np.ones(len(self.cache.rows), dtype=bool)
        return self.cache.var <= np.quantile(self.cache.var, 1 - self.skip_share)

    @cached_property
    def _positives(self) -> dict[int, Rows]:
        """Positions in the cache: of each anchor, its matches."""
        number = {int(row): position for position, row in enumerate(self.cache.rows)}
        found = {}
        for position in np.flatnonzero(self._usable).tolist():
            matching = self.matches.positives(int(self.cache.rows[position])).tolist()
            near = [number[row] for row in matching if row in number and self._usable[number[row]]]
            if near:
                found[position] = np.array(near, dtype=np.int64)
        return found

    @cached_property
    def _anchors(self) -> Rows:
        return np.array(sorted(self._positives), dtype=np.int64)

    @cached_property
    def _most_positives(self) -> int:
        return max((len(near) for near in self._positives.values()), default=0)

    def _of_anchor(
        self, anchor: int, near: NDArray[np.float32], others: Rows, random: np.random.Generator
    ) -> Rows:
        """(3, up to `negatives`) positions in the cache."""
        positive = int(random.choice(self._positives[anchor]))
        cache = self.cache
        d_ap = float(np.square(cache.means[anchor] - cache.means[positive]).sum())
        strangers = self.matches.is_negative(cache.rows[[anchor]], cache.rows[others])[0]
        violating = d_ap - near + self.margin > 0
        negatives = others[strangers & violating & self._usable[others]][: self.candidates]
        if self.uncertainty != "ignore" and len(negatives):
            negatives = self._by_uncertainty(anchor, positive, negatives, random)
        negatives = negatives[: self.negatives]
        return np.stack(
            [np.full_like(negatives, anchor), np.full_like(negatives, positive), negatives]
        )

    def _by_uncertainty(
        self, anchor: int, positive: int, negatives: Rows, random: np.random.Generator
    ) -> Rows:
        """Drop what is surely right already, or draw the doubtful and sharp ones more often."""
        right = self._chance(anchor, positive, negatives)
        if self.uncertainty == "skip":
            return negatives[right <= self.skip_above]
        vagueness = self.cache.var[negatives] / np.median(self.cache.var)
        weights = (1 - right + 1e-9) / (1 + vagueness)
        size = min(self.negatives, len(negatives))
        return random.choice(negatives, size, replace=False, p=weights / weights.sum())

    def _chance(self, anchor: int, positive: int, negatives: Rows) -> Chances:
        """P(tau < -margin) of each triplet."""
        batch, count = self.cache.embeddings, len(negatives)
        log_p = triplet_log_prob(
            batch[[anchor] * count],
            batch[[positive] * count],
            batch[torch.from_numpy(negatives)],
            margin=self.margin,
        )
        return log_p.double().exp().numpy()

    def _as_plan(self, found: list[Rows]) -> BatchPlan:
        if not found:
            nothing = np.zeros((3, 0), dtype=np.int64)
            return BatchPlan(nothing[0], triplets=nothing)
        triplets = np.concatenate(found, axis=1)
        positions, renumbered = np.unique(triplets, return_inverse=True)
        return BatchPlan(self.cache.rows[positions], triplets=renumbered.reshape(triplets.shape))


def cache_as_dict(cache: NegativeCache | None) -> dict[str, Any] | None:
    """Tensors and plain values for the state on disk."""
    if cache is None:
        return None
    batch = cache.embeddings
    return {
        "rows": torch.from_numpy(cache.rows),
        "family": batch.family,
        "mean": batch.mean,
        "spread": batch.spread,
        "step": cache.step,
    }


def cache_from_dict(saved: dict[str, Any] | None) -> NegativeCache | None:
    if saved is None:
        return None
    embeddings: Embeddings = FAMILIES[saved["family"]](*[saved["mean"], saved["spread"]])
    return NegativeCache(saved["rows"].numpy(), embeddings, saved["step"])
