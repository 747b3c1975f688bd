"""Rows of a collection in batches, and conditions as Milvus expressions.

In Milvus 2.3 `!=` holds for rows without the field, and lists must not mix integers and floats;
other comparisons agree with `Condition.holds`.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from surefind.engines.base import LONGEST_ID, Rows
from surefind.engines.filters import VAR, Condition, Value, Where
from surefind.engines.server import storable
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
