"""Base of engines on a server, which others may read and write at the same time."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from surefind.engines.base import LONGEST_ID, EngineError, Keys, Rows, Space
from surefind.engines.filters import STORABLE, Metadata
from surefind.errors import InvalidArgument

RETRY = "call again: what was acknowledged is kept, and adding the same rows twice is harmless"


class IndexRecord(NamedTuple):
    """Description of an index on its server; never changed."""

    space: Space
    facts: Mapping[str, Any]
    kind: str  # as requested at creation
    number: int | str  # differs from that of an earlier index of the same name


class StoredRow(NamedTuple):
    """One row as it was read."""

    id: str
    vector: NDArray[np.float32]
    var: float
    digest: str
    metadata: Metadata


def unreadable_url(form: str) -> InvalidArgument:
    """Return an error without the URL: a password in it may be what makes it unreadable."""
    return InvalidArgument(
        "engine",
        expected=form,
        got="a URL that cannot be read (not shown, as it may hold a password)",
        fix="percent-encode special characters in user and password: @ is %40, / is %2F, % is %25",
    )


def storable(texts: Iterable[str]) -> list[str]:
    """Return those that can be an id or a digest, each once; others would be an error."""
    return [
        text
        for text in dict.fromkeys(texts)
        if text and STORABLE.fullmatch(text) and len(text.encode()) <= LONGEST_ID
    ]


class ServerEngine(ABC):
    """Reads of rows for any server. Several threads may use an engine.

    When the server goes away the call raises `EngineError`; the next one connects again.
    """

    def __init__(self, record: IndexRecord, shown: str) -> None:
        self._record, self._shown = record, shown

    @property
    def space(self) -> Space:
        return self._record.space

    @property
    def facts(self) -> Mapping[str, Any]:
        return MappingProxyType(dict(self._record.facts))

    @property
    @abstractmethod
    def warnings(self) -> tuple[str, ...]: ...

    @abstractmethod
    def refresh(self) -> bool: ...

    @abstractmethod
    def _read(self, column: str, values: list[Any]) -> dict[Any, StoredRow]:
        """Return known rows by their key or id."""

    def rows(self, keys: Keys) -> Rows:
        wanted = np.asarray(keys).tolist()
        found = self._read("key", wanted)
        missing = sum(key not in found for key in wanted)
        if missing:
            raise EngineError(
                f"{missing} of {len(wanted)} rows were removed from {self._shown} meanwhile",
                fix="search again",
            )
        return self._to_rows([found[key] for key in wanted])

    def find(self, ids: Sequence[str]) -> Rows:
        wanted = storable(ids)
        found = self._read("id", wanted)
        return self._to_rows([found[name] for name in wanted if name in found])

    def newest(self) -> Self | None:
        """Return itself if others wrote or the warnings changed: reads show the newest version."""
        before = self.warnings
        return self if self.refresh() or self.warnings != before else None

    def _to_rows(self, found: list[StoredRow]) -> Rows:
        ids, vectors, var, digests, metadata = list(zip(*found, strict=True)) or [()] * 5
        shape = (len(found), self.space.width)
        stored = np.array(vectors, np.float32).reshape(shape)
        embeddings = self.space.embeddings(stored, np.array(var, np.float64))
        return Rows(ids, embeddings, digests, metadata)
