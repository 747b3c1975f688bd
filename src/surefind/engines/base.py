"""Interface of engines: rows, the space that is searched, results."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import FAMILIES, POINT_VAR, Embeddings, Gaussians
from surefind.engines.filters import STORABLE, VAR, Metadata, Where, check_name, check_value
from surefind.errors import InvalidArgument, SurefindError
from surefind.functional.ranking import RANKINGS
from surefind.validation import check_choice

KINDS = ("flat", "hnsw", "ivf")  # exhaustive, along a graph, in cells
LONGEST_ID = 1024  # bytes
SHA256 = re.compile("[0-9a-f]{64}")

Keys = NDArray[Any]  # the engine's own identifiers of rows: int64, or objects


class EngineError(SurefindError):
    """An engine cannot be reached or refused; nothing that it acknowledged is lost."""


@dataclass(frozen=True)
class Space:
    """Embeddings of one index, and the ranking that is its engine's own L2 order.

    Args:
        family: "gaussian" or "von-mises-fisher".
        dim: dimensions of an embedding.
        ranking: "expected" (distance) or "mean".
    """

    family: str
    dim: int
    ranking: str = "expected"

    def __post_init__(self) -> None:
        check_choice("family", self.family, tuple(FAMILIES))
        check_choice("ranking", self.ranking, RANKINGS)
        if self.dim < 1:
            raise InvalidArgument("dim", expected="at least 1", got=str(self.dim))

    @cached_property
    def width(self) -> int:
        """Length of a stored vector."""
        return self.dim + (self.ranking == "expected")

    def check(self, embeddings: Embeddings) -> None:
        if (embeddings.family, embeddings.mean.shape[1]) != (self.family, self.dim):
            raise InvalidArgument(
                "embeddings",
                expected=f"{self.family} of {self.dim} dimensions, as in the index",
                got=f"{embeddings.family} of {embeddings.dim}",
                fix="encode with the model that the index was made with",
            )

    def gallery_vectors(self, embeddings: Embeddings) -> NDArray[np.float32]:
        """Return the vectors to store, (M, width)."""
        from surefind.functional.distance import gallery_vectors  # with torch

        self.check(embeddings)
        vectors = gallery_vectors(embeddings) if self.width > self.dim else embeddings.mean
        return np.ascontiguousarray(vectors.detach().cpu().float().numpy())

    def queries(self, query: "Embeddings | Queries | NDArray[np.float32]") -> "Queries":
        """Return queries as arrays; an array has checked means (N, D) of Gaussians without variance."""
        if isinstance(query, Queries):
            return query
        if isinstance(query, np.ndarray):
            mean, var = query, np.full(len(query), np.float32(POINT_VAR), np.float64)
        else:
            self.check(query)
            mean, var = query.mean.detach().cpu().numpy(), self.var(query)
        vectors = np.ascontiguousarray(mean, np.float32)
        if self.width > self.dim:  # see `functional.query_vectors`
            vectors = np.pad(vectors, [(0, 0), (0, 1)])
        return Queries(vectors, mean.astype(np.float64), var)

    def var(self, embeddings: Embeddings) -> NDArray[np.float64]:
        """Return the variance of each row (1/kappa on the sphere), (M,)."""
        return np.asarray(embeddings.var.detach().cpu().double())

    def means(self, vectors: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
        """Return the means of stored vectors, (..., width) to (..., D)."""
        means = vectors[..., : self.dim]
        if self.family == Gaussians.family or self.width == self.dim:
            return means
        wide = means.astype(np.float64)
        length = np.linalg.norm(wide, axis=-1, keepdims=True)
        return wide / np.where(length > 0, length, 1)

    def embeddings(self, vectors: NDArray[np.float32], var: NDArray[np.float64]) -> Embeddings:
        """Return the embeddings of stored vectors (M, width)."""
        spread = np.asarray(var) if self.family == Gaussians.family else 1 / np.asarray(var)
        columns: list[Any] = [np.array(self.means(vectors), dtype=np.float32), spread]
        return FAMILIES[self.family](*columns)


class Queries(NamedTuple):
    """Q queries as arrays."""

    vectors: NDArray[np.float32]  # (Q, width), what an engine searches with
    mean: NDArray[np.float64]  # (Q, D)
    var: NDArray[np.float64]  # (Q,)

    def at(self, rows: Any) -> "Queries":
        """Select queries."""
        return Queries(self.vectors[rows], self.mean[rows], self.var[rows])


@dataclass(frozen=True)
class Rows:
    """Images to store.

    Args:
        ids: one for each row, 1 to 1024 bytes.
        embeddings: one for each row.
        digests: sha256 of each image's bytes in hex; "" where unknown.
        metadata: fields of each row.

    Raises:
        InvalidArgument: if the lengths differ, an id occurs twice, or a value cannot be stored.
    """

    ids: tuple[str, ...]
    embeddings: Embeddings
    digests: tuple[str, ...]
    metadata: tuple[Metadata, ...]

    def __post_init__(self) -> None:
        counts = {len(self.ids), len(self.embeddings), len(self.digests), len(self.metadata)}
        if len(counts) > 1:
            raise InvalidArgument(
                "rows",
                expected="as many ids as embeddings, digests and metadata",
                got=", ".join(map(str, sorted(counts))),
            )
        if len(set(self.ids)) < len(self.ids):
            raise InvalidArgument("ids", expected="one id per row", got="an id twice")
        for name in self.ids:
            if not is_storable(name):
                raise InvalidArgument("ids", expected=f"texts of 1 to {LONGEST_ID} bytes", got=repr(name[:80]))
        for digest in self.digests:
            if digest and not SHA256.fullmatch(digest):
                raise InvalidArgument("digests", expected="a sha256 in hex, or nothing", got=repr(digest[:80]))
        for row in self.metadata:
            for name, value in row.items():
                check_name(name)
                check_value(name, value)
                if name == VAR:
                    raise InvalidArgument("metadata", expected="no field 'var'", got=repr(row))

    def __len__(self) -> int:
        return len(self.ids)


class Records(NamedTuple):
    """Rows without their embeddings."""

    ids: tuple[str, ...]
    digests: tuple[str, ...]
    metadata: tuple[Metadata, ...]


class Found(NamedTuple):
    """Nearest rows of each query; where there are fewer than K the distance is infinite."""

    keys: Keys  # (Q, K)
    distance: NDArray[np.float32]  # (Q, K), squared, as the engine computed it
    vectors: NDArray[np.float32]  # (Q, K, width)
    var: NDArray[np.float64]  # (Q, K)


class Block(NamedTuple):
    """Some rows of a gallery."""

    keys: Keys  # (n,)
    vectors: NDArray[np.float32]  # (n, width)
    var: NDArray[np.float64]  # (n,)


class Engine(Protocol):
    """Interface of a vector store, made by `create_engine` and opened by `open_engine`.

    Methods raise `EngineError` if the server cannot be reached or the engine was closed.
    """

    @property
    def space(self) -> Space: ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """Description given at creation; JSON, never changed."""

    @property
    def revision(self) -> tuple[str, int]:
        """Identity of the index and a number that grows with every change of its rows.

        On Milvus, which counts no changes, the number of rows.
        """

    @property
    def exact(self) -> bool:
        """Whether searches are exhaustive."""

    @property
    def max_k(self) -> int:
        """Largest k of a search."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems that the owner should know, such as a damaged graph."""

    def add(self, rows: Rows) -> None:
        """Add rows durably, replacing those with a known id.

        If it fails, none of them is added (Milvus: whole batches may be).

        Raises:
            InvalidArgument: if the embeddings are of another family or dimension.
            EngineError: if the engine cannot be reached or written.
        """

    def remove(self, ids: Sequence[str]) -> int:
        """Remove rows and return how many there were; unknown ids are ignored."""

    def search(self, vectors: NDArray[np.float32], k: int, where: Where | None = None) -> Found:
        """Return the k nearest rows of each query.

        Args:
            vectors: queries (Q, width), of `Space.queries`.
            k: 1 to `max_k`.
            where: conditions that hits satisfy.

        Returns:
            Keys, distances, vectors and variances, (Q, K) with K <= k.

        Raises:
            InvalidArgument: if no row has a field of `where`, or none has a value of its type;
                `scan` and `count` likewise.
        """

    def rows(self, keys: Keys) -> Rows:
        """Return rows by key, in that order; raise an error if one was removed."""

    def records(self, keys: Keys) -> Records:
        """Return what `rows` does, without the embeddings."""

    def find(self, ids: Sequence[str]) -> Rows:
        """Return rows by id, in that order, each once; unknown ids are ignored."""

    def scan(self, where: Where | None = None) -> Iterator[Block]:
        """Yield all rows in blocks, as of one moment."""

    def digests_of(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the digests of known ids."""

    def ids_of(self, digests: Sequence[str]) -> dict[str, str]:
        """Return an id for each known digest."""

    def count(self, where: Where | None = None) -> int: ...

    def refresh(self) -> bool:
        """Read what other writers changed; return whether anything did."""

    def newest(self) -> Self | None:
        """Return an engine of the newest version, or None if nothing changed.

        In a folder this engine stays at its version. A server has only the newest one: the same
        engine is returned, and closing either closes both.
        """

    def compact(self) -> None:
        """Free the space of removed rows and build the vector index."""

    def describe(self) -> dict[str, Any]:
        """Return size on disk, version, kind of index and the like."""

    def verify(self) -> list[str]:
        """Read everything and return what is wrong."""

    def release(self) -> None:
        """Give back memory that the next search reads again, if there is any."""

    def close(self) -> None: ...


def is_storable(name: str) -> bool:
    """Return whether a text can be an id; in a search for ids others would be an error."""
    return bool(name and STORABLE.fullmatch(name)) and len(name.encode()) <= LONGEST_ID
