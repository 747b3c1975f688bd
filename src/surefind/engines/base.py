"""What every engine can do: keep rows, and find the nearest of them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import Embeddings
from surefind.engines.filters import Metadata, Where, check_metadata, check_value
from surefind.engines.space import Space
from surefind.errors import InvalidArgument, SurefindError

KINDS = ("flat", "hnsw", "ivf")  # how an engine looks: at everything, along a graph, in cells
LONGEST_ID = 1024  # bytes
SHA256 = re.compile("[0-9a-f]{64}")

Keys = NDArray[Any]  # the engine's own names of rows: int64, or objects


class EngineError(SurefindError):
    """An engine that cannot be reached or refused: nothing that it acknowledged is lost."""


@dataclass(frozen=True)
class Rows:
    """Images to keep: who they are, what they look like, what else is known."""

    ids: tuple[str, ...]
    embeddings: Embeddings
    digests: tuple[str, ...]  # sha256 of the image's bytes, in hex; "" where unknown
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
        check_metadata(self.metadata)

    def __len__(self) -> int:
        return len(self.ids)


class Found(NamedTuple):
    """The nearest rows for each query in the engine's own order, nearest first.

    Where fewer than K were found the distance is infinite, and the rest means nothing.
    """

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
    """Where vectors live. Created or opened by `surefind.engines.registry`."""

    @property
    def space(self) -> Space: ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the index wrote down at creation; JSON, never changed."""

    @property
    def exact(self) -> bool:
        """True if a search looks at every row, so that nothing near can be missed."""

    @property
    def max_k(self) -> int:
        """The largest k that a search can be asked for."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the owner should know, such as that a damaged version was passed over."""

    def add(self, rows: Rows) -> None:
        """Keep rows; one with a known id is replaced. When this returns, they are durable.

        Whatever stops it, all rows of the call are there or none (Milvus: whole batches of it).
        """

    def remove(self, ids: Sequence[str]) -> int:
        """Forget rows; unknown ids are passed over. Returns how many there were."""

    def search(self, vectors: NDArray[np.float32], k: int, where: Where | None = None) -> Found:
        """The k nearest of those that satisfy `where`; vectors (Q, width), 1 <= k <= max_k."""

    def rows(self, keys: Keys) -> Rows:
        """What is kept under these keys (n,), in that order."""

    def find(self, ids: Sequence[str]) -> Rows:
        """What is kept under these ids, in that order, each once; unknown ones are passed over."""

    def scan(self, where: Where | None = None) -> Iterator[Block]:
        """All rows, block by block, as they are at one moment."""

    def digests_of(self, ids: Sequence[str]) -> dict[str, str]:
        """The digests of those ids that are known."""

    def ids_of(self, digests: Sequence[str]) -> dict[str, str]:
        """For each of these digests that is known, an id that has it."""

    def count(self, where: Where | None = None) -> int: ...

    def refresh(self) -> bool:
        """See what other writers did meanwhile; True if anything changed."""

    def newest(self) -> Self | None:
        """This index as others left it, beside this one; none if nothing changed.

        One in a folder goes on answering from the version that it has. On a server there is only
        the newest: it is this one again, so that closing either closes both.
        """

    def compact(self) -> None:
        """Put everything in its best form for searching."""

    def describe(self) -> dict[str, Any]:
        """Facts for people: size on disk, version, kind of index."""

    def verify(self) -> list[str]:
        """Everything that is wrong with what is kept; read in full."""

    def close(self) -> None: ...
