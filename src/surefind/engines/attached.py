"""Vectors that another program keeps on a server: they are searched there and never changed."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import Embeddings, Gaussians
from surefind.engines.base import EngineError, IndexRecord, Rows, ServerEngine, Space
from surefind.errors import InvalidArgument
from surefind.validation import check_choice, nearest

METRICS = ("l2", "cosine", "ip")
COLUMNS = ("vector", "id", "label", "metric")  # parameters of the URL of an attached place
SAMPLE = 100  # vectors whose lengths are checked
LENGTH_TOLERANCE = 0.01  # of vectors that are compared by inner product


def attached_url(
    url: str,
    *,
    vector: str,
    id: str,  # noqa: A002
    label: str | None = None,
    metric: str = "l2",
) -> str:
    """Return the URL of a table or collection together with its columns."""
    check_choice("metric", metric, METRICS)
    if not url.startswith(("pgvector://", "milvus://")):
        raise InvalidArgument("url", expected="pgvector://... or milvus://...", got=repr(url))
    given = dict(zip(COLUMNS, (vector, id, label or "", metric), strict=True))
    written = {name: value for name, value in given.items() if value}
    return f"{url}{'&' if '?' in url else '?'}{urlencode(written, quote_via=quote)}"


def same_columns(url: str, known: str) -> str:
    """Return a URL with the columns of a known one, unless it names its own."""
    written = urlencode([pair for pair in _parameters(known) if pair[0] in COLUMNS], quote_via=quote)
    if not written or any(name in COLUMNS for name, _ in _parameters(url)):
        return url
    return f"{url}{'&' if '?' in url else '?'}{written}"


def _parameters(url: str) -> list[tuple[str, str]]:
    return parse_qsl(url.partition("?")[2])


def check_column(what: str, name: str, there: Sequence[str]) -> None:
    """Raise InvalidArgument if a column is not there."""
    if name not in there:
        near = nearest(name, there)
        raise InvalidArgument(
            what,
            expected=f"one of {', '.join(there) or 'no columns'}",
            got=repr(name),
            fix=f"did you mean {near!r}?" if near else None,
        )


class UnitSpace(Space):
    """Vectors that are compared by their direction: queries are divided by their length."""

    def queries(self, query: Embeddings) -> Any:
        return super().queries(_unit(query))

    def query_vectors(self, query: Embeddings) -> NDArray[np.float32]:
        return super().query_vectors(_unit(query))


def attached_record(place: str, dim: int, metric: str) -> IndexRecord:
    """Return the description of an attached place: it has none of its own."""
    space = (Space if metric == "l2" else UnitSpace)(Gaussians.family, dim, "mean")
    number = hashlib.sha256(place.encode()).hexdigest()[:32]
    made_by = hashlib.sha256(f"vectors of {dim} dimensions, {metric}".encode()).hexdigest()
    return IndexRecord(space, {"fingerprint": made_by, "gallery": number}, "auto", number)


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors (n, D) divided by their length; zeros stay."""
    length = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1), dtype=np.float32)


def check_lengths(vectors: NDArray[np.float32], metric: str) -> None:
    """Raise InvalidArgument if inner products of these vectors (n, D) are not cosines."""
    length = np.linalg.norm(vectors.astype(np.float64), axis=1)
    if metric == "ip" and (np.abs(length - 1) > LENGTH_TOLERANCE).any():
        raise InvalidArgument(
            "metric",
            expected="vectors of length 1 with ip",
            got=f"lengths of {length.min():.4g} to {length.max():.4g}",
            fix="use cosine",
        )


def only_read(shown: str) -> EngineError:
    return EngineError(f"{shown} is attached: it is only read")


class ReadOnly(ServerEngine):
    """Methods of an engine whose rows belong to another program."""

    _own_fields: Mapping[str, Any]
    _seen = -1  # rows at the last refresh

    @property
    def revision(self) -> tuple[str, int]:
        """Return the number of rows: servers count no changes."""
        return str(self._record.number), self.count()

    @property
    def warnings(self) -> tuple[str, ...]:
        return ()

    def refresh(self) -> bool:
        before, self._seen = self._seen, self.count()
        return before != self._seen

    def verify(self) -> list[str]:
        bad = sum(int((~np.isfinite(block.vectors)).any(axis=1).sum()) for block in self.scan())
        return [f"Rows with a vector that is not finite: {bad}."] if bad else []

    def _fields(self) -> Iterable[str]:
        return self._own_fields

    def add(self, rows: Rows) -> None:
        raise only_read(self._shown)

    def remove(self, ids: Sequence[str]) -> int:
        raise only_read(self._shown)

    def compact(self) -> None:
        raise only_read(self._shown)

    def digests_of(self, ids: Sequence[str]) -> dict[str, str]:
        return dict.fromkeys(self.find(ids).ids, "")

    def ids_of(self, digests: Sequence[str]) -> dict[str, str]:
        return {}


def label_fields(fields: Mapping[str, Any], label: str | None) -> dict[str, Any]:
    """Return the fields of an attached place; its label is also called label."""
    return dict(fields) if label is None else {**fields, "label": fields[label]}


def _unit(query: Embeddings) -> Embeddings:
    length = query.mean.norm(dim=1, keepdim=True)
    return query.replace(query.mean / length.clamp_min(1e-30), query.spread)
