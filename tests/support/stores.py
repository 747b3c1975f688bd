"""Small embedded indexes, what is in them, and how to damage them."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from galleries import random_embeddings, random_rows

from surefind.engines.base import Engine, Rows, Space
from surefind.engines.embedded.engine import EmbeddedEngine, create, open_place

DIM = 6
SPACE = Space("gaussian", DIM)
FACTS = {"fingerprint": "f" * 64, "nested": {"a": [1, 2.5, "ü"]}}
QUERIES = SPACE.queries(random_embeddings(5, DIM, seed=99)).vectors

Contents = dict[str, tuple[Any, ...]]


def made(place: Path, *, kind: str = "flat", space: Space = SPACE) -> EmbeddedEngine:
    engine = create(str(place), space, FACTS, kind=kind)
    assert isinstance(engine, EmbeddedEngine)
    return engine


def opened(place: Path) -> EmbeddedEngine:
    return open_place(str(place))


def some_rows(count: int, seed: int, *, prefix: str = "row") -> Rows:
    return random_rows(count, DIM, seed, prefix=prefix)


def filled(place: Path, *, kind: str = "flat") -> EmbeddedEngine:
    """Rows of several additions, some removed and some replaced."""
    engine = made(place, kind=kind)
    engine.add(some_rows(20, 1))
    engine.add(some_rows(10, 2, prefix="other"))
    engine.remove(["row-3", "row-4"])
    engine.add(some_rows(2, 3, prefix="row"))
    return engine


def contents(engine: Engine) -> Contents:
    """All that is kept, by id."""
    found: Contents = {}
    for block in engine.scan():
        rows = engine.rows(block.keys)
        for n, name in enumerate(rows.ids):
            assert name not in found, f"{name} is there twice"
            found[name] = (
                rows.digests[n],
                json.dumps(dict(rows.metadata[n]), sort_keys=True),
                rows.embeddings.mean[n].numpy().tobytes(),
                float(rows.embeddings.spread[n]),
                block.vectors[n].tobytes(),
                float(block.var[n]),
            )
    assert len(found) == engine.count()
    return found


def answers(engine: Engine, k: int = 4) -> list[list[str]]:
    """The ids that are nearest to a few queries."""
    if not engine.count():
        return []
    found = engine.search(QUERIES, min(k, engine.max_k))
    return [list(engine.rows(keys).ids) for keys in found.keys]


def flip_bit(path: Path, *, seed: int = 0) -> None:
    content = bytearray(path.read_bytes())
    random = np.random.default_rng(seed)
    content[random.integers(len(content))] ^= 1 << random.integers(8)
    path.write_bytes(content)


def flip_last_bit(path: Path) -> None:
    """In a new file of the same name: whoever has mapped the old one does not see it."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.unlink()
    path.write_bytes(content)


def files_of(place: Path) -> list[Path]:
    """All that matters in the folder of an index."""
    return sorted(path for path in place.rglob("*") if path.is_file() and path.name != "lock")


def change_documents(file: Path, change: str, prefix: str = "calibration") -> None:
    """Change documents behind the back of their checksums; `change` is SQL."""
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(f"{change} WHERE name GLOB ?", (f"{prefix}*",))


def forget_calibration(index: Path) -> None:
    change_documents(index / "store" / "index.db", "DELETE FROM documents")
