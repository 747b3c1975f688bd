"""Copies of a query, the nearest rows without them, and local density: how far these are.

A copy has the content or the vector of the query, and no other label. Every model finds it, so it
is no evidence. An equal vector with another label is an error of the model and stays.
"""

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from surefind.confidence.evidence import NEIGHBOURS
from surefind.embeddings import Embeddings
from surefind.engines.base import Engine, Keys
from surefind.engines.knn import NUMBERS_AT_ONCE, Nearest, nearest

ROUNDING = 1e-10  # of the squared lengths; see `is_copy`
GROWTH = 4  # factor by which more rows are fetched if too few remain
PROJECTIONS = 8
REACH = 2.1 * ROUNDING**0.5  # directions and logarithms of lengths of copies differ by less
ROWS_AT_ONCE = 1024
WIDTH = NEIGHBOURS + 1  # one more, since a query in the gallery is removed
MEASURED_AT_ONCE = 1024  # rows, with the vectors of their neighbours in memory

Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]
Distances = NDArray[np.float32]
Rows = NDArray[np.int64]
Vectors = NDArray[np.floating]


def is_copy(between: Numbers, length: Numbers, other: Numbers) -> Flags:
    r"""Whether vectors of these squared lengths are equal but for rounding; arguments broadcast.

        |q - x|^2 <= 1e-10 (|q|^2 + |x|^2)

    The same picture encoded in a batch of another size differs by some 1e-13 of the squared
    lengths (float32, ResNet-50); different pictures by 1e-3, even if the network is untrained.
    """
    return np.asarray(between <= ROUNDING * (length + other))


def copies_among(near: Nearest, query: Numbers) -> Flags:
    """Return which nearest rows equal their query (Q, D); (Q, K)."""
    length = np.einsum("qd,qd->q", query, query)[:, None]  # of a copy too
    return np.asarray(is_copy(near.distance, length, length) & np.isfinite(near.ranked_by))


def nearest_others(
    engine: Engine, query: Embeddings, k: int, left_out: Callable[[Rows, Nearest], Flags], *, vectors: bool = False
) -> tuple[Nearest, list[Keys]]:
    """Return the k nearest rows of each query that are not left out, and the keys left out.

    `left_out` takes row numbers of queries and their nearest rows (Q, K), and returns (Q, K).
    More rows are fetched for queries with fewer than k others. Their vectors, which take most of the
    memory, are kept only if asked for.
    """
    parts: list[tuple[Rows, Nearest]] = []
    copies: list[Keys] = [np.empty(0)] * len(query)
    rows, fetch = np.arange(len(query)), k + 1
    while len(rows):
        step = max(1, NUMBERS_AT_ONCE // (fetch * engine.space.width))
        short = []
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            near = nearest(engine, query[some.tolist()], fetch, ranking=engine.space.ranking, vectors=vectors)
            out = left_out(some, near)
            others = near._replace(ranked_by=np.where(out, np.inf, near.ranked_by))
            done = (others.found >= k) | (near.found < fetch)
            parts.append((some[done], others.at(done).first(k)))
            for place in np.flatnonzero(done):
                copies[some[place]] = near.keys[place, out[place]]
            short.append(some[~done])
        rows, fetch = np.concatenate(short), fetch * GROWTH
    if not parts:
        return Nearest.nothing(engine.space.width), copies
    order = np.argsort(np.concatenate([some for some, _ in parts]))
    return Nearest.joined([near for _, near in parts]).at(order), copies


def first_copies(means: Vectors, digests: Sequence[str] = (), *, labels: Sequence[str] = ()) -> Rows:
    """Return for each row of (N, D) the first row that it is a copy of, else itself; (N,).

    By vector (`is_copy`), and by digest where given ("" is none). Rows with other labels are no
    copies of each other.
    """
    from scipy.sparse import coo_array  # type: ignore[import-untyped]  # not for a search
    from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

    if not len(means):
        return np.empty(0, np.int64)
    rows = np.arange(len(means))
    equal = first_equal(means)
    links = [equal, _first_near(means, np.unique(equal))]
    if len(digests):
        links.append(_first_alike(np.array([d or str(row) for row, d in enumerate(digests)])))
    graph = coo_array(
        (np.ones(len(links) * len(rows), bool), (np.tile(rows, len(links)), np.concatenate(links))),
        shape=(len(rows), len(rows)),
    )
    _, alike = connected_components(graph, directed=False)
    if len(labels):
        alike = alike.astype(np.int64) * len(rows) + _first_alike(np.array(labels))
    return _first_alike(alike)


def first_equal(means: Vectors) -> Rows:
    """Return for each row of (N, D) the first row with equal values, (N,)."""
    starts = range(0, len(means), ROWS_AT_ONCE)
    parts = [_digests(means[start : start + ROWS_AT_ONCE] + 0, 16) for start in starts]  # -0.0 is 0.0
    return _first_alike(np.frombuffer(b"".join(parts), "V16"))


def _first_alike(values: NDArray[np.generic]) -> Rows:
    """Return for each row the first row with the same value."""
    _, first, place = np.unique(values, return_index=True, return_inverse=True)
    return np.asarray(first[place], np.int64)


def _first_near(means: Vectors, rows: Rows) -> Rows:
    r"""Return for each row the first of `rows`, among which none are equal, that it equals but for rounding.

    Candidates come from a KD-tree over coordinates in which no two rows are farther apart:
    projections of the directions, and the logarithms of the lengths.
    """
    from scipy.spatial import cKDTree  # type: ignore[import-untyped]

    near = np.arange(len(means))
    random = np.random.default_rng(0).normal(size=(means.shape[1], PROJECTIONS))
    axes = np.linalg.qr(random)[0]
    parts, squares = [], []
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = means[rows[start : start + ROWS_AT_ONCE]].astype(np.float64)
        squares.append(np.square(some).sum(axis=1))
        size = np.sqrt(np.maximum(squares[-1], np.finfo(np.float64).tiny))
        parts.append(np.column_stack([some @ axes / size[:, None], np.log(size)]))
    points, length = np.concatenate(parts), np.concatenate(squares)
    tree = cKDTree(points)
    tied = np.isfinite(tree.query(points, k=2, distance_upper_bound=REACH)[0][:, 1])
    for place in np.flatnonzero(tied):
        if near[rows[place]] != rows[place]:
            continue
        ball = np.array(tree.query_ball_point(points[place], REACH))
        ball = ball[near[rows[ball]] == rows[ball]]
        away = means[rows[ball]].astype(np.float64) - means[rows[place]]
        equal = is_copy(np.square(away).sum(axis=1), length[ball], length[place])
        near[rows[ball[equal]]] = rows[place]
    return near


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
            for start in range(0, len(block.keys), MEASURED_AT_ONCE):
                keys = block.keys[start : start + MEASURED_AT_ONCE]
                key_hashes.append(hash_vectors(block.vectors[start : start + MEASURED_AT_ONCE]))
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
    return np.frombuffer(_digests(vectors, 8), dtype="<u8").astype(np.uint64)


def _digests(vectors: Vectors, size: int) -> bytes:
    return b"".join(hashlib.blake2b(row, digest_size=size).digest() for row in np.ascontiguousarray(vectors))
