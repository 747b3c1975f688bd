"""Local density: distances from every indexed image to its nearest neighbours."""

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

WIDTH = NEIGHBOURS + 1  # one more, since a query in the gallery is removed
ROWS_AT_ONCE = 1024  # with the vectors of their neighbours in memory

Distances = NDArray[np.float32]


class LocalDensity:
    """Distances from rows to their nearest neighbours, looked up by a hash of the row's vector.

    Rows added or replaced later have another hash and are unknown.
    """

    def __init__(self, key_hashes: NDArray[np.uint64], distances: Distances, *, gallery: str = "") -> None:
        order = np.argsort(key_hashes)
        self.key_hashes, self.distances = key_hashes[order], distances[order]
        self.gallery = gallery  # id of the gallery the distances hold for

    def __len__(self) -> int:
        return len(self.key_hashes)

    @classmethod
    def empty(cls) -> "LocalDensity":
        return cls(np.empty(0, np.uint64), np.empty((0, WIDTH), np.float32))

    @classmethod
    def of(cls, engine: Engine, *, progress: Callable[[int], None] = lambda _: None) -> "LocalDensity":
        """Measure all rows of an engine, block by block."""
        key_hashes, distances = [np.empty(0, np.uint64)], [np.empty((0, WIDTH), np.float32)]
        done = 0
        for block in engine.scan():
            for start in range(0, len(block.keys), ROWS_AT_ONCE):
                keys = block.keys[start : start + ROWS_AT_ONCE]
                key_hashes.append(hash_vectors(block.vectors[start : start + ROWS_AT_ONCE]))
                distances.append(knn_distances_of(engine, keys))
                done += len(keys)
                progress(done)
        gallery = str(engine.facts.get("gallery", ""))
        return cls(np.concatenate(key_hashes), np.concatenate(distances), gallery=gallery)

    def knn_distances(self, vectors: NDArray[np.float32]) -> Distances:
        """Distances for rows with these stored vectors, (n, WIDTH); NaN for unknown rows."""
        wanted = hash_vectors(vectors)
        found = np.full((len(wanted), WIDTH), np.nan, dtype=np.float32)
        if len(self):
            place = np.minimum(np.searchsorted(self.key_hashes, wanted), len(self) - 1)
            known = self.key_hashes[place] == wanted
            found[known] = self.distances[place[known]]
        return found

    def to_bytes(self) -> bytes:
        name = np.frombuffer(self.gallery.encode(), dtype=np.uint8)
        key_hashes = self.key_hashes.view(np.int64)
        return save({"key_hashes": key_hashes, "distances": self.distances, "gallery": name})

    @classmethod
    def from_bytes(cls, content: bytes) -> "LocalDensity":
        tensors = load(content)
        name = tensors["gallery"].tobytes().decode()
        return cls(tensors["key_hashes"].view(np.uint64), tensors["distances"], gallery=name)


def known_density(engine: Engine, density: LocalDensity, near: Nearest) -> NDArray[np.float64]:
    """Distances for hits, (Q, K, WIDTH); rows unknown to `density` are measured now."""
    keys, first, place = np.unique(near.keys, return_index=True, return_inverse=True)
    if density.gallery != str(engine.facts.get("gallery", "")):
        density = LocalDensity.empty()
    found = density.knn_distances(near.vectors.reshape(-1, engine.space.width)[first])
    new = np.isnan(found[:, 0])
    if new.any():
        found[new] = knn_distances_of(engine, keys[new])
    return found[place.reshape(near.keys.shape)].astype(np.float64)


def knn_distances_of(engine: Engine, keys: Keys) -> Distances:
    """Distances from rows to their nearest neighbours, (n, WIDTH)."""
    rows = engine.rows(keys).embeddings  # equal rows have equal distances
    once, place = np.unique(first_equal(rows.mean.numpy()), return_inverse=True)
    return distances_to_others(engine, rows[once.tolist()])[place]


def distances_to_others(engine: Engine, rows: Embeddings, *, but: Sequence[Keys] | None = None) -> Distances:
    """Distances from rows to their nearest non-copies, (n, WIDTH), ascending.

    The keys in `but`, per row, are left out too. The last distance is repeated as padding.
    """
    query = rows.mean.double().numpy()

    def left_out(some: NDArray[np.int64], near: Nearest) -> Flags:
        out = copies_among(near, query[some])
        if but is not None:
            for number, row in enumerate(some):
                out[number] |= np.isin(near.keys[number], but[row])
        return out

    near, _ = nearest_others(engine, rows, WIDTH, left_out)
    between = np.where(np.isfinite(near.ranked_by), near.distance, np.inf)
    between.sort(axis=1)
    last = np.where(np.isfinite(between), between, 0).max(axis=1, initial=0, keepdims=True)
    padded = np.pad(np.where(np.isfinite(between), between, last), [(0, 0), (0, WIDTH - between.shape[1])], mode="edge")
    return padded.astype(np.float32)


def hash_vectors(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """64-bit hashes of vectors (n, width)."""
    rows = np.ascontiguousarray(vectors)
    digests = b"".join(hashlib.blake2b(row, digest_size=8).digest() for row in rows)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
