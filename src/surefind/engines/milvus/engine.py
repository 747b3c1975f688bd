"""Engine in a Milvus collection."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import POINT_VAR
from surefind.engines.base import LONGEST_ID, Block, EngineError, Found, Rows, Space
from surefind.engines.filters import VAR, Condition, Value, Where
from surefind.engines.milvus.client import LOADING, Collection, Hits, parse
from surefind.engines.server import IndexRecord, ServerEngine, StoredRow, opened, storable
from surefind.errors import InvalidArgument

FORMAT = 1
MANY = 100_000  # rows from which `auto` has a graph
FIELDS = ("id", "vector", "var", "digest", "metadata")
EVERYTHING = 'id > ""'  # no id is empty
BYTES_AT_ONCE = 1_000_000  # of an expression; larger ones take the server seconds to parse
LONGEST_ANSWER = 60_000_000  # bytes; the server sends 64 MiB at most
EASY_ANSWER = 16_000_000  # bytes of an answer where there is a choice
AT_ONCE = 16_384  # largest number of queries, and of neighbours
BATCH = 4_000_000  # bytes: one message of the server's log, which is atomic
LONGEST_METADATA = 65_000  # bytes of JSON; Milvus takes 65,536 as it writes it
TYPES: dict[str, tuple[str, Mapping[str, Any]]] = {  # Milvus's name and how to build it
    "flat": ("FLAT", {}),
    "hnsw": ("HNSW", {"M": 32, "efConstruction": 200}),
    "ivf": ("IVF_FLAT", {"nlist": 1024}),
}
KINDS = {name: kind for kind, (name, _) in TYPES.items()}  # others, built by somebody else, keep Milvus's name


def create(place: str, space: Space, facts: Mapping[str, Any], *, kind: str) -> "MilvusEngine":
    """Create the collection; Milvus refuses a second with another description."""
    description = json.dumps(
        {
            "surefind": FORMAT,
            "space": {"family": space.family, "dim": space.dim, "ranking": space.ranking},
            "facts": dict(facts),
            "kind": kind,
            "number": uuid4().hex,
        },
        allow_nan=False,
    )
    with closing(Collection(parse(place))) as collection:
        types = collection.pymilvus.DataType
        schema = collection.pymilvus.MilvusClient.create_schema(description=description, enable_dynamic_field=False)
        schema.add_field("id", types.VARCHAR, max_length=LONGEST_ID, is_primary=True)
        schema.add_field("vector", types.FLOAT_VECTOR, dim=space.width)
        schema.add_field("var", types.DOUBLE)
        schema.add_field("digest", types.VARCHAR, max_length=64)
        schema.add_field("metadata", types.JSON)
        try:
            collection.call("create_collection", schema=schema, consistency_level="Strong")
        except EngineError as error:
            if not collection.call("has_collection"):
                raise
            problem = f"there is a collection at {collection.place.shown} already"
            raise EngineError(problem, fix="open it to add to it, or name another collection in the URL") from error
    return open_place(place)


def open_place(place: str) -> "MilvusEngine":
    return opened(MilvusEngine, Collection(parse(place)))


def describe_server(place: str, *, seconds: float) -> str:
    """Return the version of a server; an index need not be there."""
    with closing(Collection(replace(parse(place), timeout=float(seconds)))) as collection:
        return f"Milvus {collection.server_version().removeprefix('v')}"


class CollectionReader(ServerEngine):
    """Search and reads of a collection."""

    _fields_of_rows: Sequence[str] = FIELDS  # id and vector first
    _fields_of_hits: Sequence[str] = ("vector", "var")
    _metric = "l2"  # else unit vectors

    def __init__(self, record: IndexRecord, collection: Collection) -> None:
        super().__init__(record, collection.place.shown, collection)
        self._collection, self._hit_bytes = collection, 4 * record.space.width + LONGEST_ID + 32  # in an answer

    @property
    def max_k(self) -> int:
        return min(AT_ONCE, LONGEST_ANSWER // self._hit_bytes)

    def search(self, vectors: NDArray[np.float32], k: int, where: Where | None = None) -> Found:
        """Return the k nearest, in as many requests as their answers need.

        Milvus ignores ef (HNSW) or nprobe (IVF) if its index has no use for it.
        """
        width, wanted = vectors.shape[1], self._expression(where)
        at_once = max(1, min(AT_ONCE, EASY_ANSWER // (k * self._hit_bytes)))
        effort = {"ef": min(max(100, 2 * k), 32_768), "nprobe": 128}
        hits: list[Hits] = []
        for start in range(0, len(vectors), at_once):
            some = vectors[start : start + at_once]
            hits += self._collection.search(
                some, k, expression=wanted, effort=effort, fields=self._fields_of_hits, metric=self._metric.upper()
            )
        shape = (len(hits), max((len(one[0]) for one in hits), default=0))
        found = Found(
            keys=np.full(shape, "", dtype=object),
            distance=np.full(shape, np.inf, dtype=np.float32),
            vectors=np.zeros((*shape, width), dtype=np.float32),
            var=np.ones(shape, dtype=np.float64),
        )
        for row, (ids, distance, near, var) in enumerate(hits):
            count = len(ids)
            found.keys[row, :count] = list(map(str, ids))
            apart = np.array(distance, np.float32)
            found.distance[row, :count] = apart if self._metric == "l2" else 2 - 2 * apart
            found.vectors[row, :count], found.var[row, :count] = self._scaled(near), var
        if not shape[1]:
            self.count(where)  # an error if a field is unknown
        return found

    def _read(self, column: str, values: list[Any]) -> dict[Any, StoredRow]:
        at_once = LONGEST_ANSWER // (4 * self.space.width + 70_000)  # bytes of metadata, id, digest
        found = (
            self._stored_row(row)
            for some in portions(values, at_once)  # keys are ids
            for row in self._collection.query(self._among(some), self._fields_of_rows, len(some))
        )
        return {row[0]: row for row in found}

    def scan(self, where: Where | None = None) -> Iterator[Block]:
        """Yield rows that are there all the while once; concurrent writes may be missing.

        They come by ascending id: Milvus has no pages beyond 16,384 rows.
        """
        size, (name, vector) = 4 * self.space.width + LONGEST_ID, self._fields_of_rows[:2]
        at_once, last, fields = min(AT_ONCE, EASY_ANSWER // size), "", [name, *self._fields_of_hits]
        while found := self._collection.query(f"{self._after(last)} and {self._expression(where)}", fields, at_once):
            keys = np.empty(len(found), dtype=object)
            keys[:] = [str(row[name]) for row in found]
            vectors = self._scaled(np.array([row[vector] for row in found], dtype=np.float32))
            yield Block(keys, vectors, np.array([row.get(VAR, POINT_VAR) for row in found]))
            last = keys[-1]
        if not last:
            self.count(where)

    def _count(self, where: Where | None) -> int:
        return self._collection.count(self._expression(where))

    def _expression(self, where: Where | None) -> str:
        return expression(where)

    def _among(self, ids: Iterable[str]) -> str:
        return among("id", ids)

    def _after(self, last: str) -> str:
        """Return the condition of rows behind an id; all, if it is empty."""
        return f"id > {literal(last)}"

    def _stored_row(self, row: Mapping[str, Any]) -> StoredRow:
        name, vector, var, digest, metadata = (row[name] for name in FIELDS)
        return name, vector, var, digest, metadata


class MilvusEngine(CollectionReader):
    """`Engine` in a Milvus collection.

    Reads see all that was written here; what others wrote they see after a moment, and for certain
    after `refresh`.
    """

    def __init__(self, collection: Collection) -> None:
        super().__init__(_read_record(collection), collection)
        self._kind = _ensure_index(collection, self._record.kind)
        collection.catch_up()
        self._seen = self.count()

    @property
    def warnings(self) -> tuple[str, ...]:
        rows = self._seen or 0
        if self._kind == "flat" != _wanted(self._record.kind, self._kind, rows):
            return (f"Searches compare {rows} rows each: compact the index.",)
        return ()

    def add(self, rows: Rows) -> None:
        """Add batch by batch; if it fails, whole batches of some megabytes may be there."""
        if not len(rows):
            return
        for batch in batches(rows, self.space):
            self._seen = None
            self._collection.call("upsert", batch)
        self._collection.catch_up()

    def remove(self, ids: Sequence[str]) -> int:
        removed = 0
        for some in portions(ids):
            known = [row["id"] for row in self._collection.query(among("id", some), ["id"], len(some))]
            if known:
                self._collection.call("delete", filter=among("id", known))
                removed += len(known)
        if removed:
            self._collection.catch_up()
        self._seen = None if self._seen is None else self._seen - removed
        return removed

    def digests_of(self, ids: Sequence[str]) -> dict[str, str]:
        return {
            row["id"]: row["digest"]
            for some in portions(ids)
            for row in self._collection.query(among("id", some), ["id", "digest"], len(some))
        }

    def ids_of(self, digests: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for rest in portions(digests):
            while rest:  # again for those beyond the limit
                asked, limit = among("digest", rest), AT_ONCE
                answer = self._collection.query(asked, ["id", "digest"], limit)
                found |= {row["digest"]: row["id"] for row in answer}
                rest = [one for one in rest if one not in found] if len(answer) == limit else []
        return found

    def _fields(self) -> set[str]:
        rows = self._collection.query(EVERYTHING, ["metadata"], 800)  # at most one answer
        return {name for row in rows for name in row["metadata"]}

    def refresh(self) -> bool:
        """Make reads see all writes; return whether the number of rows or the index changed.

        Milvus does not report replacements, nor who wrote: it is True after own additions too.
        """
        if _read_record(self._collection).number != self._record.number:
            problem = f"the collection at {self._shown} was dropped, and another made"
            raise EngineError(problem, fix="open the index again")
        kind = _ensure_index(self._collection, self._record.kind)
        self._collection.catch_up()
        rows = self.count()
        changed = (rows, kind) != (self._seen, self._kind)
        self._seen, self._kind = rows, kind
        return changed

    def compact(self) -> None:
        """Flush and build the index; a change of its kind blocks reads until it is built."""
        self._collection.call("flush", timeout=LOADING)
        self._collection.catch_up()
        kind = _wanted(self._record.kind, self._kind, self.count())
        if kind != self._kind:  # if interrupted, `_ensure_index` builds it later
            if (index := self._collection.index()) is not None:
                self._collection.call("release_collection")
                self._collection.call("drop_index", index_name=index["index_name"])
            _build_index(self._collection, kind)
        _wait_for_index(self._collection)
        self._kind = kind

    def describe(self) -> dict[str, Any]:
        return {
            "engine": "milvus",
            **super().describe(),
            "collection": self._collection.place.collection,
            "asked_kind": self._record.kind,
            "server": f"Milvus {self._collection.server_version()}",
        }

    def verify(self) -> list[str]:
        """Check every row; concurrent writes can look like a wrong number of rows."""
        self._collection.catch_up()
        faults: Counter[str] = Counter()
        seen, last = 0, ""
        for block in self.scan():
            seen += len(block.keys)
            finite = np.isfinite(block.vectors).all(axis=1)
            sound = np.isfinite(block.var) & (block.var > 0)
            repeated = sum(one >= other for one, other in pairwise([last, *block.keys.tolist()]))
            faults["a vector with numbers that are not finite"] += int((~finite).sum())
            faults["a variance that is not positive and finite"] += int((~sound).sum())
            faults["an id that another row has"] += repeated
            last = block.keys[-1]
        wrong = [f"Rows with {fault}: {number}." for fault, number in faults.items() if number]
        if (counted := self.count()) != seen:
            wrong.append(f"The server counts {counted} rows and shows {seen}.")
        return wrong


def _read_record(collection: Collection) -> IndexRecord:
    shown = collection.place.shown
    try:
        meta = json.loads(collection.call("describe_collection")["description"])
        if meta["surefind"] != FORMAT:
            raise EngineError(
                f"the collection at {shown} was made by another version of surefind",
                fix="pip install --upgrade surefind",
            )
        return IndexRecord(Space(**meta["space"]), meta["facts"], meta["kind"], meta["number"])
    except (KeyError, TypeError, ValueError) as error:
        raise EngineError(f"the collection at {shown} was not made by surefind") from error


def _ensure_index(collection: Collection, asked: str) -> str:
    """Build the index if it is missing, and return its kind."""
    index = collection.index()
    if index is None:
        kind = "flat" if asked == "auto" else asked
        _build_index(collection, kind)
        return kind
    if index["metric_type"] != "L2":
        raise EngineError(
            f"the index at {collection.place.shown} is for {index['metric_type']}, not for L2",
            fix="drop the index of the field 'vector' and open again",
        )
    return KINDS.get(index["index_type"], str(index["index_type"]))


def _build_index(collection: Collection, kind: str) -> None:
    name, building = TYPES[kind]
    wanted = collection.pymilvus.MilvusClient.prepare_index_params(
        "vector", index_type=name, metric_type="L2", params=dict(building), index_name="vector"
    )
    collection.call("create_index", wanted, sync=False)
    _wait_for_index(collection)
    collection.call("load_collection", timeout=LOADING)


def _wait_for_index(collection: Collection) -> None:
    """Wait until the index has all flushed rows."""
    while (index := collection.index()) is not None and int(index.get("pending_index_rows", 0)):
        time.sleep(0.2)


def _wanted(asked: str, present: str, rows: int) -> str:
    return asked if asked != "auto" else "hnsw" if rows >= MANY else present


def batches(rows: Rows, space: Space) -> list[list[dict[str, Any]]]:
    """Return the rows in batches; all are checked before any is sent."""
    vectors, var = space.gallery_vectors(rows.embeddings), space.var(rows.embeddings).tolist()
    made: list[list[dict[str, Any]]] = []
    left = 0
    for number, (name, digest) in enumerate(zip(rows.ids, rows.digests, strict=True)):
        metadata = dict(rows.metadata[number])
        length = len(json.dumps(metadata, ensure_ascii=False).encode())
        if length > LONGEST_METADATA:
            raise InvalidArgument(
                "rows",
                expected=f"at most {LONGEST_METADATA} bytes of metadata, Milvus's limit",
                got=f"{length} in the row {name[:80]!r}",
            )
        size = len(name) + length + 200 + vectors[number].nbytes
        if size > left:
            made.append([])
            left = BATCH
        left -= size
        made[-1].append(dict(zip(FIELDS, (name, vectors[number], var[number], digest, metadata), strict=True)))
    return made


def expression(where: Where | None) -> str:
    """Return conditions as a Milvus expression.

    In Milvus 2.3 `!=` holds for rows without the field, and lists must not mix integers and floats;
    other comparisons agree with `Condition.holds`.
    """
    conditions = [
        compared(one, VAR if one.field == VAR else f'metadata["{one.field}"]')
        for one in (where.conditions if where else ())
    ]
    return " and ".join([EVERYTHING, *conditions])


def compared(condition: Condition, field: str) -> str:
    values = [literal(value) for value in condition.values]
    if condition.op == "in":
        return f"{field} in [{', '.join(values)}]"
    if condition.op == "=":
        return f"{field} == {values[0]}"
    if condition.op != "!=":
        return f"{field} {condition.op} {values[0]}"
    if condition.kind == "bool":
        return f"{field} == {literal(not condition.value)}"
    return f"({field} < {values[0]} or {field} > {values[0]})"


def among(field: str, values: Iterable[str]) -> str:
    return f"{field} in [{', '.join(map(literal, values))}]"


def portions(texts: Iterable[str], at_most: int = 4096) -> Iterator[list[str]]:
    """Yield each storable text once, in lists that make expressions of a moderate size."""
    some: list[str] = []
    size = 0
    for text in storable(texts):
        length = len(text.encode())
        size += length
        if some and (len(some) == at_most or size > BYTES_AT_ONCE):
            yield some
            some, size = [], length
        some.append(text)
    if some:
        yield some


def literal(value: Value) -> str:
    """Return a literal: texts are quoted as in JSON, numbers lose no digit."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(float(value))
