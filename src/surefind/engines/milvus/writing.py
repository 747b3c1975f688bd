"""Rows on their way to the server: checked first, then in batches."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from surefind.engines.engine import Rows
from surefind.engines.milvus.driver import Collection
from surefind.engines.milvus.expressions import among, portions
from surefind.engines.space import Space
from surefind.engines.where import Metadata
from surefind.errors import InvalidArgument

BATCH = 4_000_000  # bytes: one message of the server's log, so kept whole or not at all
LONGEST_DIGEST = 64
LONGEST_METADATA = 65_000  # bytes of JSON; Milvus takes 65,536, and may write it longer than here

Row = dict[str, Any]


def batches(rows: Rows, space: Space) -> Iterator[list[Row]]:
    """All is checked before the first batch is given out."""
    space.check(rows.embeddings)
    sizes = [_size(*row) for row in zip(rows.ids, rows.digests, rows.metadata, strict=True)]
    return _batches(rows, space, sizes)


def remove(collection: Collection, ids: Sequence[str]) -> int:
    """How many of them there were."""
    removed = 0
    for some in portions(ids):
        known = [row["id"] for row in collection.query(among("id", some), ["id"], len(some))]
        if known:
            collection.delete(among("id", known))
            removed += len(known)
    if removed:
        collection.catch_up()
    return removed


def _batches(rows: Rows, space: Space, sizes: Sequence[int]) -> Iterator[list[Row]]:
    vectors, var = space.stored(rows.embeddings), space.var(rows.embeddings).tolist()
    batch: list[Row] = []
    full = 0
    for number, size in enumerate(sizes):
        full += size + vectors[number].nbytes
        if batch and full > BATCH:
            yield batch
            batch, full = [], size + vectors[number].nbytes
        batch.append(
            {
                "id": rows.ids[number],
                "vector": vectors[number],
                "var": var[number],
                "digest": rows.digests[number],
                "metadata": dict(rows.metadata[number]),
            }
        )
    if batch:
        yield batch


def _size(name: str, digest: str, metadata: Metadata) -> int:
    """About as many bytes as the row takes besides its vector."""
    length = len(json.dumps(dict(metadata), ensure_ascii=False).encode())
    for what, size, most in (
        ("metadata", length, LONGEST_METADATA),
        ("digests", len(digest), LONGEST_DIGEST),
    ):
        if size > most:
            raise InvalidArgument(
                what,
                expected=f"at most {most} bytes in a row, Milvus's limit",
                got=f"{size} in the row {name[:80]!r}",
                fix="keep long texts elsewhere",
            )
    return len(name) + length + 200
