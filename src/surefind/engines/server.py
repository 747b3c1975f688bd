"""What engines on a server share: reads of rows; attached places, which are only read."""

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import POINT_VAR, Embeddings, Gaussians
from surefind.engines.base import Engine, EngineError, Keys, Queries, Records, Rows, Space, is_storable
from surefind.engines.filters import VAR, Metadata, Where, check_fields
from surefind.engines.registry import METRICS, only_read
from surefind.errors import InvalidArgument
from surefind.validation import nearest

RETRY = "call again: what was acknowledged is kept, and adding the same rows twice is harmless"
SAMPLE = 100  # vectors whose lengths are checked


class IndexRecord(NamedTuple):
    """Description of an index on its server; never changed."""

    space: Space
    facts: Mapping[str, Any]
    kind: str  # as requested at creation
    number: int | str  # differs from that of an earlier index of the same name


StoredRow = tuple[str, NDArray[np.float32], float, str, Metadata]  # id, vector, variance, digest
Opened = TypeVar("Opened", bound="ServerEngine")


def opened(engine: Callable[[Any], Opened], connection: Any) -> Opened:
    """Return an engine; close its connection if it cannot be opened."""
    try:
        return engine(connection)
    except BaseException:
        connection.close()
        raise


def unreadable_url(form: str) -> InvalidArgument:
    """Return an error without the URL: a password in it may be what makes it unreadable."""
    return InvalidArgument(
        "engine",
        expected=form,
        got="a URL that cannot be read (not shown, as it may hold a password)",
        fix="percent-encode special characters in user and password: @ is %40, / is %2F, % is %25",
    )


def storable(texts: Iterable[str]) -> list[str]:
    """Return those that can be an id or a digest, each once."""
    return list(filter(is_storable, dict.fromkeys(texts)))


class ServerEngine(Engine):
    """Reads of rows for any server. Several threads may use an engine.

    When the server goes away the call raises `EngineError`; the next one connects again.
    """

    _kind: str  # flat, hnsw or ivf, as built
    _seen: int | None  # rows or changes at the last refresh

    def __init__(self, record: IndexRecord, shown: str, connection: Any) -> None:
        self._record, self._shown, self._connection = record, shown, connection

    @property
    def space(self) -> Space:
        return self._record.space

    @property
    def facts(self) -> Mapping[str, Any]:
        return MappingProxyType(dict(self._record.facts))

    @property
    def revision(self) -> tuple[str, int]:
        return str(self._record.number), self.count()

    @property
    def exact(self) -> bool:
        return self._kind == "flat"

    @abstractmethod
    def _read(self, column: str, values: list[Any]) -> dict[Any, StoredRow]:
        """Return known rows by their key or id."""

    @abstractmethod
    def _count(self, where: Where | None) -> int: ...

    @abstractmethod
    def _fields(self) -> Iterable[str]:
        """Return the names of metadata fields."""

    def _scaled(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return stored vectors as they are compared."""
        return vectors

    def count(self, where: Where | None = None) -> int:
        found = self._count(where)
        if where is not None and not found and self._count(None):
            check_fields(where, lambda some: self._count(some) > 0, self._fields)
        return found

    def rows(self, keys: Keys) -> Rows:
        return self._to_rows(self._stored(keys))

    def records(self, keys: Keys) -> Records:
        ids, _, _, digests, metadata = list(zip(*self._stored(keys), strict=True)) or [()] * 5
        return Records(ids, digests, metadata)

    def _stored(self, keys: Keys) -> list[StoredRow]:
        wanted = np.asarray(keys).tolist()
        found = self._read("key", wanted)
        if missing := sum(key not in found for key in wanted):
            problem = f"{missing} of {len(wanted)} rows were removed from {self._shown} meanwhile"
            raise EngineError(problem, fix="search again")
        return [found[key] for key in wanted]

    def find(self, ids: Sequence[str]) -> Rows:
        wanted = storable(ids)
        found = self._read("id", wanted)
        return self._to_rows([found[name] for name in wanted if name in found])

    def _to_rows(self, found: list[StoredRow]) -> Rows:
        ids, vectors, var, digests, metadata = list(zip(*found, strict=True)) or [()] * 5
        stored = np.array(vectors, np.float32).reshape(len(found), self.space.width)
        return Rows(ids, self.space.embeddings(stored, np.array(var, np.float64)), digests, metadata)

    def newest(self) -> Self | None:
        """Return itself if others wrote or the warnings changed: reads show the newest version."""
        before = self.warnings
        return self if self.refresh() or self.warnings != before else None

    def describe(self) -> dict[str, Any]:
        return {"place": self._shown, "kind": self._kind, "rows": self.count()}

    def close(self) -> None:
        self._connection.close()


class UnitSpace(Space):
    """Vectors that are compared by their direction: queries are divided by their length."""

    def queries(self, query: Embeddings | Queries | NDArray[np.float32]) -> Queries:
        if isinstance(query, np.ndarray):
            query = Gaussians(query, np.full(len(query), POINT_VAR))
        if isinstance(query, Embeddings):
            length = query.mean.norm(dim=1, keepdim=True)
            query = query.replace(query.mean / length.clamp_min(1e-30), query.spread)
        return super().queries(query)


class ReadOnly(ServerEngine):
    """Methods of an engine whose rows belong to another program."""

    _own_fields: Mapping[str, Any]
    _metric: str  # l2, cosine or ip

    @property
    def warnings(self) -> tuple[str, ...]:
        return ()

    def refresh(self) -> bool:
        before, self._seen = self._seen, self.count()
        return before != self._seen

    def verify(self) -> list[str]:
        bad = sum(int((~np.isfinite(block.vectors)).any(axis=1).sum()) for block in self.scan())
        return [f"Rows with a vector that is not finite: {bad}."] if bad else []

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "attached": True, "metric": self._metric, "fields": sorted(self._own_fields)}

    def _fields(self) -> Iterable[str]:
        return self._own_fields

    def _scaled(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return vectors (n, D), of length 1 unless they are compared by L2; zeros stay."""
        if self._metric == "l2":
            return vectors
        length = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        return np.asarray(vectors / np.where(length > 0, length, 1), dtype=np.float32)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise only_read(self._shown)

    add = remove = compact = _refuse

    def digests_of(self, ids: Sequence[str]) -> dict[str, str]:
        return dict.fromkeys(self.find(ids).ids, "")

    def ids_of(self, digests: Sequence[str]) -> dict[str, str]:
        return {}


def columns_of(columns: Mapping[str, str], there: Sequence[str]) -> dict[str, str]:
    """Return the columns and the metric of an attached place, unless one is unknown."""
    given = {"id": "id", "metric": "l2", **columns}
    choices = {"metric": METRICS} | {what: tuple(there) for what in ("vector", "id", "label") if what in given}
    for what, known in choices.items():
        if (name := given[what]) not in known:
            near = nearest(name, known)
            raise InvalidArgument(
                what,
                expected=f"one of {', '.join(known) or 'no columns'}",
                got=repr(name),
                fix=f"did you mean {near!r}?" if near else None,
            )
    return given


def fields_of(fields: Mapping[str, Any], given: Mapping[str, str], types: Mapping[str, object]) -> dict[str, Any]:
    """Return what rows of an attached place can be filtered by; its label is also called label."""
    label = given.get("label")
    if label and label not in fields:
        raise InvalidArgument("label", expected="texts or numbers", got=f"{label} {types[label]}")
    every = {**fields, "label": fields[label]} if label else fields
    return {name: its for name, its in every.items() if name not in (VAR, given["id"]) or name == "label"}


def attached_record(place: str, metric: str, sample: NDArray[np.float32]) -> IndexRecord:
    """Return the description of an attached place, of a sample (n, D) whose inner products must be cosines."""
    if not len(sample):
        raise EngineError(f"{place} holds no vectors")
    length, dim = np.linalg.norm(sample.astype(np.float64), axis=1), sample.shape[1]
    if metric == "ip" and (np.abs(length - 1) > 0.01).any():
        raise InvalidArgument(
            "metric",
            expected="vectors of length 1 with ip",
            got=f"lengths of {length.min():.4g} to {length.max():.4g}",
            fix="use cosine",
        )
    space = (Space if metric == "l2" else UnitSpace)(Gaussians.family, dim, "mean")
    number = hashlib.sha256(place.encode()).hexdigest()[:32]
    made_by = hashlib.sha256(f"vectors of {dim} dimensions, {metric}".encode()).hexdigest()
    return IndexRecord(space, {"fingerprint": made_by, "gallery": number}, "auto", number)
