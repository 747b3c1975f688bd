"""Rows of a collection: search, read, write; conditions as Milvus expressions.

In Milvus 2.3 `!=` holds for rows without the field, and lists must not mix integers and floats;
other comparisons agree with `Condition.holds`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.engines.base import LONGEST_ID, Block, Found, Rows
from surefind.engines.filters import VAR, Condition, Value, Where
from surefind.engines.milvus.client import Collection, Hits
from surefind.engines.server import StoredRow, storable
from surefind.engines.space import Space
from surefind.errors import InvalidArgument

FIELDS = ("id", "vector", "var", "digest", "metadata")
EVERYTHING = 'id > ""'  # no id is empty
IDS_AT_ONCE = 4096
BYTES_AT_ONCE = 1_000_000  # of an expression; larger ones take the server seconds to parse
LONGEST_ANSWER = 60_000_000  # bytes; the server sends 64 MiB at most
EASY_ANSWER = 16_000_000  # bytes of an answer where there is a choice
AT_ONCE = 16_384  # largest number of queries, and of neighbours
FARTHEST = 32_768  # largest ef
LARGEST_REST = 70_000  # bytes of a row besides its vector: metadata, id, digest
BATCH = 4_000_000  # bytes: one message of the server's log, which is atomic
LONGEST_METADATA = 65_000  # bytes of JSON; Milvus takes 65,536 as it writes it


def expression(where: Where | None) -> str:
    """Return the expression of `where`."""
    conditions = [] if where is None else [_condition(one) for one in where.conditions]
    return " and ".join([EVERYTHING, *conditions])


def among(field: str, values: Iterable[str]) -> str:
    return f"{field} in [{', '.join(map(literal, values))}]"


def portions(texts: Iterable[str], at_most: int = IDS_AT_ONCE) -> Iterator[list[str]]:
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


def _condition(condition: Condition) -> str:
    field = VAR if condition.field == VAR else f'metadata["{condition.field}"]'
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


def bytes_per_hit(width: int) -> int:
    return 4 * width + LONGEST_ID + 32


def search(
    collection: Collection, vectors: NDArray[np.float32], k: int, *, expression: str
) -> Found:
    """Return the k nearest, in as many requests as their answers need.

    Milvus ignores ef (HNSW) or nprobe (IVF) if its index has no use for it.
    """
    width = vectors.shape[1]
    at_once = max(1, min(AT_ONCE, EASY_ANSWER // (k * bytes_per_hit(width))))
    effort = {"ef": min(max(100, 2 * k), FARTHEST), "nprobe": 128}
    hits: list[Hits] = []
    for start in range(0, len(vectors), at_once):
        some = vectors[start : start + at_once]
        hits += collection.search(some, k, expression=expression, effort=effort)
    shape = (len(hits), max((len(one[0]) for one in hits), default=0))
    found = Found(
        keys=np.full(shape, "", dtype=object),
        distance=np.full(shape, np.inf, dtype=np.float32),
        vectors=np.zeros((*shape, width), dtype=np.float32),
        var=np.ones(shape, dtype=np.float64),
    )
    for row, (ids, distance, near, var) in enumerate(hits):
        count = len(ids)
        found.keys[row, :count], found.distance[row, :count] = ids, distance
        found.vectors[row, :count], found.var[row, :count] = near, var
    return found


def scan(collection: Collection, where: Where | None, space: Space) -> Iterator[Block]:
    """Yield rows by ascending id: Milvus has no pages beyond 16,384 rows."""
    at_once = min(AT_ONCE, EASY_ANSWER // (4 * space.width + LONGEST_ID))
    last = ""
    while found := collection.query(
        f"id > {literal(last)} and {expression(where)}", FIELDS[:3], at_once
    ):
        keys = np.empty(len(found), dtype=object)
        keys[:] = [row["id"] for row in found]
        vectors = np.array([row["vector"] for row in found], dtype=np.float32)
        yield Block(keys, vectors, np.array([row["var"] for row in found], dtype=np.float64))
        last = found[-1]["id"]


def read_rows(collection: Collection, ids: Sequence[str], width: int) -> dict[str, StoredRow]:
    """Return known rows by id."""
    at_once = LONGEST_ANSWER // (4 * width + LARGEST_REST)
    return {
        row["id"]: StoredRow(*(row[name] for name in FIELDS))
        for some in portions(ids, at_once)
        for row in collection.query(among("id", some), FIELDS, len(some))
    }


def ids_of(collection: Collection, digests: Sequence[str]) -> dict[str, str]:
    """Return an id for each known digest; repeats the query for those beyond the limit."""
    found: dict[str, str] = {}
    for some in portions(digests):
        rest = some
        while rest:
            answer = collection.query(among("digest", rest), ["id", "digest"], AT_ONCE)
            found |= {row["digest"]: row["id"] for row in answer}
            rest = [one for one in rest if one not in found] if len(answer) == AT_ONCE else []
    return found


def batches(rows: Rows, space: Space) -> list[list[dict[str, Any]]]:
    """Return the rows in batches; all are checked before any is sent."""
    vectors, var = space.gallery_vectors(rows.embeddings), space.var(rows.embeddings).tolist()
    made: list[list[dict[str, Any]]] = []
    room = 0
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
        if size > room:
            made.append([])
            room = BATCH
        room -= size
        values = (name, vectors[number], var[number], digest, metadata)
        made[-1].append(dict(zip(FIELDS, values, strict=True)))
    return made
