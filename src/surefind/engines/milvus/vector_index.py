"""How Milvus looks for the nearest: at everything, along a graph, in cells."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from surefind.engines.engine import EngineError
from surefind.engines.milvus.driver import Collection, IndexState

MANY = 100_000  # rows from which `auto` has a graph
FARTHEST = 32_768  # the largest ef that Milvus takes
LONGEST_BUILD = 24 * 3600.0  # seconds


class Kind(NamedTuple):
    type: str  # Milvus's name
    building: Mapping[str, Any]


TYPES = {
    "flat": Kind("FLAT", {}),
    "hnsw": Kind("HNSW", {"M": 32, "efConstruction": 200}),
    "ivf": Kind("IVF_FLAT", {"nlist": 1024}),
}


def asking(k: int) -> dict[str, Any]:
    """How hard to look for k rows: along a graph, in how many cells.

    Milvus takes what its index understands, which someone else may have built meanwhile.
    """
    return {"ef": min(max(100, 2 * k), FARTHEST), "nprobe": 128}


def ensure(collection: Collection, asked: str) -> str:
    """Have an index, whatever was interrupted before. Returns the kind in force."""
    index = collection.index()
    if index is None:
        kind = "flat" if asked == "auto" else asked
        _build(collection, kind)
        return kind
    if index.metric != "L2":
        raise EngineError(
            f"the index at {collection.place.shown} is for {index.metric}, not for L2",
            fix="drop the index of the field 'vector' and open again",
        )
    return _kind_of(index)


def rebuild(collection: Collection, kind: str) -> None:
    """Nobody can read meanwhile; an interrupted one is made up for by `ensure`."""
    if (index := collection.index()) is not None:
        collection.drop_index(index.name)
    _build(collection, kind)


def wait(collection: Collection) -> None:
    """Until all rows that the server's store has are in the index."""
    last = time.monotonic() + LONGEST_BUILD
    while (index := collection.index()) is not None and index.waiting:
        if time.monotonic() > last:
            raise EngineError(
                f"the index at {collection.place.shown} was not built in a day",
                fix="see the server's log, and compact again",
            )
        time.sleep(0.2)


def _build(collection: Collection, kind: str) -> None:
    collection.build_index(TYPES[kind].type, TYPES[kind].building)
    wait(collection)
    collection.load()


def _kind_of(index: IndexState) -> str:
    """flat, hnsw or ivf; Milvus's own word for an index that someone else built."""
    kinds = {kind.type: name for name, kind in TYPES.items()}
    return kinds.get(index.type, index.type)


def wanted(asked: str, present: str, rows: int) -> str:
    """The kind that there should be."""
    if asked != "auto":
        return asked
    return "hnsw" if rows >= MANY else present
