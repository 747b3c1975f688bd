"""Interface of engines, which store rows and search the nearest of them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import Embeddings
from surefind.engines.filters import VAR, Metadata, Where, check_name, check_value
from surefind.engines.space import Space
from surefind.errors import InvalidArgument, SurefindError

KINDS = ("flat", "hnsw", "ivf")  # exhaustive, along a graph, in cells
LONGEST_ID = 1024  # bytes
SHA256 = re.compile("[0-9a-f]{64}")

Keys = NDArray[Any]  # the engine's own identifiers of rows: int64, or objects


class EngineError(SurefindError):
    """An engine cannot be reached or refused; nothing that it acknowledged is lost."""


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
            if not name or "\0" in name or len(name.encode(errors="replace")) > LONGEST_ID:
                raise InvalidArgument(
                    "ids",
                    expected=f"texts of 1 to {LONGEST_ID} bytes",
                    got=repr(name[:80]),
                )
            check_value("ids", name)
        for digest in self.digests:
            if digest and not SHA256.fullmatch(digest):
                raise InvalidArgument(
                    "digests", expected="a sha256 in hex, or nothing", got=repr(digest[:80])
                )
        for row in self.metadata:
            for name, value in row.items():
                check_name(name)
                check_value(name, value)
                if name == VAR:
                    raise InvalidArgument("metadata", expected="no field 'var'", got=repr(row))

    def __len__(self) -> int:
        return len(self.ids)


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
    """Store of rows, created or opened by `create_engine` and `open_engine`."""

    @property
    def space(self) -> Space: ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """Description given at creation; JSON, never changed."""

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
            vectors: queries (Q, width), of `Space.query_vectors`.
            k: 1 to `max_k`.
            where: conditions that hits satisfy.

        Returns:
            Keys, distances, vectors and variances, (Q, K) with K <= k.
        """

    def rows(self, keys: Keys) -> Rows:
        """Return rows by key, in that order; raise an error if one was removed."""

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

    def close(self) -> None: ...
