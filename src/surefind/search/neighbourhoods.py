"""How far every image of a gallery is from its own neighbours: the density around a hit."""

import hashlib
from collections.abc import Callable

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
    """Distances to the nearest others, found by an engine's key of the row."""

    def __init__(
        self, codes: NDArray[np.uint64], distances: Distances, *, gallery: str = ""
    ) -> None:
        order = np.argsort(codes)
        self.codes, self.distances = codes[order], distances[order]
        self.gallery = gallery  # which one: keys mean nothing in another

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
                codes.append(codes_of(keys))
                distances.append(distances_around(engine, keys, ranking=ranking))
                done += len(keys)
                if progress is not None:
                    progress(done)
        return cls(np.concatenate(codes), np.concatenate(distances), gallery=_gallery_of(engine))

    def around(self, keys: Keys) -> Distances:
        """(n, WIDTH); nan for rows that are not known."""
        wanted = codes_of(keys)
        found = np.full((len(wanted), WIDTH), np.nan, dtype=np.float32)
        if len(self):
            place = np.minimum(np.searchsorted(self.codes, wanted), len(self) - 1)
            known = self.codes[place] == wanted
            found[known] = self.distances[place[known]]
        return found

    def to_bytes(self) -> bytes:
        name = np.frombuffer(self.gallery.encode(), dtype=np.uint8)
        codes = self.codes.view(np.int64)
        return save({"codes": codes, "distances": self.distances, "gallery": name})

    @classmethod
    def from_bytes(cls, content: bytes) -> "Neighbourhoods":
        tensors = load(content)
        name = tensors["gallery"].tobytes().decode()
        return cls(tensors["codes"].view(np.uint64), tensors["distances"], gallery=name)


def known_around(
    engine: Engine, neighbourhoods: Neighbourhoods, keys: Keys, *, ranking: str
) -> Distances:
    """Around rows, (n, WIDTH): those that came after the calibration are looked at now."""
    if neighbourhoods.gallery != _gallery_of(engine):
        neighbourhoods = Neighbourhoods.empty()
    around = neighbourhoods.around(keys)
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


def _gallery_of(engine: Engine) -> str:
    return str(engine.facts.get("gallery", ""))


def codes_of(keys: Keys) -> NDArray[np.uint64]:
    """Numbers as they are; of texts 64 bits, of which no two are alike among millions."""
    if np.issubdtype(keys.dtype, np.integer):
        return keys.astype(np.uint64)
    texts = (str(key).encode() for key in keys)
    digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
