"""How far every image of a gallery is from its own neighbours: the density around a hit."""

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from surefind.confidence.copies import Flags, copies_among, first_equal, nearest_others
from surefind.confidence.evidence import NEIGHBOURS
from surefind.embeddings import Embeddings
from surefind.engines.base import Engine, Keys
from surefind.engines.knn import Nearest

WIDTH = NEIGHBOURS + 1  # one more: a query that is in the gallery is left out
ROWS_AT_ONCE = 1024  # their neighbours' vectors are in memory, 20 times as many

Distances = NDArray[np.float32]


class LocalDensity:
    """Distances from rows to their nearest others, found by a digest of the row's vector.

    A row that was replaced has another vector, whatever key the engine gave it, and is unknown.
    """

    def __init__(
        self, codes: NDArray[np.uint64], distances: Distances, *, gallery: str = ""
    ) -> None:
        order = np.argsort(codes)
        self.codes, self.distances = codes[order], distances[order]
        self.gallery = gallery  # which one: in another a row has other neighbours

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def empty(cls) -> "LocalDensity":
        return cls(np.empty(0, np.uint64), np.empty((0, WIDTH), np.float32))

    @classmethod
    def of(cls, engine: Engine, *, progress: Callable[[int], None] | None = None) -> "LocalDensity":
        """Of all rows as they are now, block by block."""
        codes, distances, done = [np.empty(0, np.uint64)], [np.empty((0, WIDTH), np.float32)], 0
        for block in engine.scan():
            for start in range(0, len(block.keys), ROWS_AT_ONCE):
                keys = block.keys[start : start + ROWS_AT_ONCE]
                codes.append(key_hashes_of(block.vectors[start : start + ROWS_AT_ONCE]))
                distances.append(distances_around(engine, keys))
                done += len(keys)
                if progress is not None:
                    progress(done)
        return cls(np.concatenate(codes), np.concatenate(distances), gallery=_gallery_of(engine))

    def around(self, vectors: NDArray[np.float32]) -> Distances:
        """Around rows with these stored vectors, (n, WIDTH); nan where there was none."""
        wanted = key_hashes_of(vectors)
        found = np.full((len(wanted), WIDTH), np.nan, dtype=np.float32)
        if len(self):
            place = np.minimum(np.searchsorted(self.codes, wanted), len(self) - 1)
            known = self.codes[place] == wanted
            found[known] = self.distances[place[known]]
        return found

    def to_bytes(self) -> bytes:
        name = np.frombuffer(self.gallery.encode(), dtype=np.uint8)
        codes = self.codes.view(np.int64)
        return save({"vector_codes": codes, "distances": self.distances, "gallery": name})

    @classmethod
    def from_bytes(cls, content: bytes) -> "LocalDensity":
        tensors = load(content)
        name = tensors["gallery"].tobytes().decode()
        return cls(tensors["vector_codes"].view(np.uint64), tensors["distances"], gallery=name)


def known_density(
    engine: Engine, neighbourhoods: LocalDensity, near: Nearest
) -> NDArray[np.float64]:
    """Around hits, (Q, K, WIDTH): those new or replaced since the calibration are looked at now."""
    keys, first, place = np.unique(near.keys, return_index=True, return_inverse=True)
    if neighbourhoods.gallery != _gallery_of(engine):
        neighbourhoods = LocalDensity.empty()
    around = neighbourhoods.around(near.vectors.reshape(-1, engine.space.width)[first])
    new = np.isnan(around[:, 0])
    if new.any():
        around[new] = distances_around(engine, keys[new])
    return around[place.reshape(near.keys.shape)].astype(np.float64)


def distances_around(engine: Engine, keys: Keys) -> Distances:
    """From rows to their nearest others, (n, WIDTH), as `distances_to_others` has them."""
    rows = engine.rows(keys).embeddings  # those that are equal have the same others
    once, place = np.unique(first_equal(rows.mean.numpy()), return_inverse=True)
    return distances_to_others(engine, rows[once.tolist()])[place]


def distances_to_others(
    engine: Engine, rows: Embeddings, *, but: Sequence[Keys] | None = None
) -> Distances:
    """From rows to the nearest that are no copies of them, (n, WIDTH) ascending.

    Nor are they rows whose keys `but` has for each. Padded where there are fewer.
    """
    query = rows.mean.double().numpy()

    def left_out(some: NDArray[np.int64], near: Nearest) -> Flags:
        out = copies_among(near, engine.space.means(near.vectors), query[some])
        if but is not None:
            for number, row in enumerate(some):
                out[number] |= np.isin(near.keys[number], but[row])
        return out

    near, _ = nearest_others(engine, rows, WIDTH, left_out)
    means = engine.space.means(near.vectors).astype(np.float64)
    between = np.square(means - query[:, None]).sum(axis=-1)
    between[~np.isfinite(near.ranked_by)] = np.inf
    between.sort(axis=1)
    last = np.where(np.isfinite(between), between, 0).max(axis=1, initial=0, keepdims=True)
    padded = np.pad(
        np.where(np.isfinite(between), between, last),
        [(0, 0), (0, WIDTH - between.shape[1])],
        mode="edge",
    )
    return padded.astype(np.float32)


def _gallery_of(engine: Engine) -> str:
    return str(engine.facts.get("gallery", ""))


def key_hashes_of(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """64 bits of a digest of each vector (n, width): no two alike among millions."""
    rows = np.ascontiguousarray(vectors)
    digests = b"".join(hashlib.blake2b(row, digest_size=8).digest() for row in rows)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
