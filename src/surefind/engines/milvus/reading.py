"""Rows, digests and ids of a collection."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from surefind.engines.engine import LONGEST_ID, Block, EngineError, Keys, Rows
from surefind.engines.milvus.driver import FIELDS, Collection
from surefind.engines.milvus.expressions import EVERYTHING, after, among, portions
from surefind.engines.milvus.searching import AT_ONCE, EASY_ANSWER, LONGEST_ANSWER
from surefind.engines.space import Space
from surefind.engines.where import Where

LARGEST_REST = 70_000  # bytes of a row besides its vector: metadata, id, digest


def rows(collection: Collection, keys: Keys, space: Space) -> Rows:
    ids = [str(key) for key in keys.tolist()]
    found = _kept(collection, ids, space)
    gone = [name for name in ids if name not in found]
    if gone:
        raise EngineError(
            f"{len(gone)} of {len(ids)} rows are gone from {collection.place.shown}, "
            f"such as {gone[0][:80]!r}",
            fix="someone removed them meanwhile: search again",
        )
    return _rows([found[name] for name in ids], space)


def find(collection: Collection, ids: Sequence[str], space: Space) -> Rows:
    """Of those ids that are known, in that order, each once."""
    found = _kept(collection, ids, space)
    return _rows([found[name] for name in dict.fromkeys(ids) if name in found], space)


def scan(collection: Collection, where: Where | None, space: Space) -> Iterator[Block]:
    """By ascending id: Milvus has no pages beyond 16,384 rows."""
    at_once = min(AT_ONCE, EASY_ANSWER // (4 * space.width + LONGEST_ID))
    last = ""
    while found := collection.query(after(last, where), ["id", "vector", "var"], at_once):
        yield _block(found, space)
        last = found[-1]["id"]


def digests_of(collection: Collection, ids: Sequence[str]) -> dict[str, str]:
    return {
        row["id"]: row["digest"]
        for some in portions(ids)
        for row in collection.query(among("id", some), ["id", "digest"], len(some))
    }


def ids_of(collection: Collection, digests: Sequence[str]) -> dict[str, str]:
    """Asks again for those that the many rows of others left no room for."""
    found: dict[str, str] = {}
    for some in portions(digests):
        rest = some
        while rest:
            answer = collection.query(among("digest", rest), ["id", "digest"], AT_ONCE)
            found |= {row["digest"]: row["id"] for row in answer}
            rest = [one for one in rest if one not in found] if len(answer) == AT_ONCE else []
    return found


def var_range(collection: Collection, known: tuple[float, float]) -> tuple[float, float]:
    """Bounds, beginning with what was known: rows outside of them widen them.

    A few thousand rows tell nearly where all lie, so that two or three questions are enough.
    """
    low, high = known
    while True:
        outside = f"var < {low!r} or var > {high!r}" if low <= high else EVERYTHING
        found = [row["var"] for row in collection.query(outside, ["var"], AT_ONCE)]
        wider = min([low, *found]), max([high, *found])
        if wider == (low, high):
            return wider
        low, high = wider


def _kept(collection: Collection, ids: Sequence[str], space: Space) -> dict[str, dict[str, Any]]:
    at_once = LONGEST_ANSWER // (4 * space.width + LARGEST_REST)
    return {
        row["id"]: row
        for some in portions(ids, at_once)
        for row in collection.query(among("id", some), FIELDS, len(some))
    }


def _rows(kept: Sequence[dict[str, Any]], space: Space) -> Rows:
    block = _block(kept, space)
    return Rows(
        ids=tuple(row["id"] for row in kept),
        embeddings=space.embeddings(block.vectors, block.var),
        digests=tuple(row["digest"] for row in kept),
        metadata=tuple(row["metadata"] for row in kept),
    )


def _block(found: Sequence[dict[str, Any]], space: Space) -> Block:
    keys = np.empty(len(found), dtype=object)
    keys[:] = [row["id"] for row in found]
    vectors = np.array([row["vector"] for row in found], dtype=np.float32)
    return Block(
        keys=keys,
        vectors=vectors.reshape(len(found), space.width),
        var=np.array([row["var"] for row in found], dtype=np.float64),
    )
