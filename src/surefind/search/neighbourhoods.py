"""How far every image of a gallery is from its own neighbours: the density around a hit."""

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from surefind.engines.engine import Engine, Keys
from surefind.search.evidence.seen import NEIGHBOURS
from surefind.search.neighbours import nearest

WIDTH = NEIGHBOURS + 1  # one more: a query that is in the gallery is left out
ROWS_AT_ONCE = 1024  # their neighbours' vectors are in memory, 20 times as many

Distances = NDArray[np.float32]


class Neighbourhoods:
    """Distances to the nearest others, found by the id of an image."""

    def __init__(self, codes: NDArray[np.uint64], distances: Distances) -> None:
        order = np.argsort(codes)
        self.codes, self.distances = codes[order], distances[order]

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def empty(cls) -> "Neighbourhoods":
        return cls(np.empty(0, np.uint64), np.empty((0, WIDTH), np.float32))

    @classmethod
    def of(
        cls, engine: Engine, *, ranking: str, progress: Callable[[int], None] | None = None
    ) -> "Neighbourhoods":
        """Of all rows as they are now, block by block."""
        codes, distances, done = [np.empty(0, np.uint64)], [np.empty((0, WIDTH), np.float32)], 0
        for block in engine.scan():
            for start in range(0, len(block.keys), ROWS_AT_ONCE):
                keys = block.keys[start : start + ROWS_AT_ONCE]
                codes.append(_codes(engine.rows(keys).ids))
                distances.append(distances_around(engine, keys, ranking=ranking))
                done += len(keys)
                if progress is not None:
                    progress(done)
        return cls(np.concatenate(codes), np.concatenate(distances))

    def around(self, ids: Sequence[str]) -> Distances:
        """(n, WIDTH); nan for images that are not known."""
        wanted = _codes(ids)
        found = np.full((len(wanted), WIDTH), np.nan, dtype=np.float32)
        if len(self):
            place = np.minimum(np.searchsorted(self.codes, wanted), len(self) - 1)
            known = self.codes[place] == wanted
            found[known] = self.distances[place[known]]
        return found

    def to_bytes(self) -> bytes:
        return save({"codes": self.codes.view(np.int64), "distances": self.distances})

    @classmethod
    def from_bytes(cls, content: bytes) -> "Neighbourhoods":
        tensors = load(content)
        return cls(tensors["codes"].view(np.uint64), tensors["distances"])


def known_around(
    engine: Engine,
    neighbourhoods: Neighbourhoods,
    keys: Keys,
    ids: Sequence[str],
    *,
    ranking: str,
) -> Distances:
    """Around rows, (n, WIDTH): those that came after the calibration are looked at now."""
    around = neighbourhoods.around(ids)
    new = np.isnan(around[:, 0])
    if new.any():
        around[new] = distances_around(engine, keys[new], ranking=ranking)
    return around


def distances_around(engine: Engine, keys: Keys, *, ranking: str) -> Distances:
    """From rows to their nearest others, (n, WIDTH) ascending; padded where there are fewer."""
    rows = engine.rows(keys)
    near = nearest(engine, rows.embeddings, WIDTH + 1, ranking=ranking)
    means = engine.space.means(near.vectors).astype(np.float64)
    between = np.square(means - rows.embeddings.mean.numpy()[:, None]).sum(axis=-1)
    between[~np.isfinite(near.ranked_by) | (near.keys == np.asarray(keys)[:, None])] = np.inf
    between.sort(axis=1)
    between = between[:, :WIDTH]
    last = np.where(np.isfinite(between), between, 0).max(axis=1, keepdims=True)
    padded = np.pad(
        np.where(np.isfinite(between), between, last),
        [(0, 0), (0, WIDTH - between.shape[1])],
        mode="edge",
    )
    return padded.astype(np.float32)


def _codes(ids: Sequence[str]) -> NDArray[np.uint64]:
    """64 bits of each id: among a million ids two are alike once in 40 million galleries."""
    digests = b"".join(hashlib.blake2b(name.encode(), digest_size=8).digest() for name in ids)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
