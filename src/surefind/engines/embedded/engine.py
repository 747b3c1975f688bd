"""Embedded engine: an index in a folder, each version a transaction of SQLite."""

import json
import secrets
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from surefind import storage
from surefind.engines.base import SHA256, Block, EngineError, Found, Keys, Records, Rows, Space
from surefind.engines.embedded import database
from surefind.engines.embedded.ann import LINKS, kind_wanted, write_index
from surefind.engines.embedded.database import COLUMNS, OWN_FILE, View, load
from surefind.engines.embedded.vectors import Ints, Vectors, appended, check_free_space, map_vectors, unload
from surefind.engines.filters import Where
from surefind.errors import InvalidArgument, InvalidFile

BLOCK = 4096  # rows that share a checksum
KEPT_FOR = 600  # seconds that removed rows stay for readers of older versions
MOST_DEAD = 0.3  # share of removed rows that triggers `compact`
_SCANNED = 32 * 2**20  # bytes of vectors in a block of a scan


def create(place: str, space: Space, facts: Mapping[str, Any], *, kind: str = "auto") -> "EmbeddedEngine":
    """Create an empty index in the folder `place`."""
    folder, identity = Path(place), secrets.token_hex(16)
    kept = json.dumps(dict(facts), allow_nan=False)
    meta = {"format": database.FORMAT, "identity": identity, "kind": kind, "facts": kept}
    meta |= {"family": space.family, "dim": space.dim, "ranking": space.ranking, "graph": "null"}
    meta |= {"version": 0, "next_key": 0, "vectors": f"{identity}.vectors", "removed": b""}
    meta |= {"compacted": "[0, 0]", "purged": 0}  # version and time; the newest purged version
    storage.make_writable(folder)
    database.create_tables(folder, meta)
    return open_place(place)


def open_place(place: str) -> "EmbeddedEngine":
    """Open the index in the folder `place` and verify the checksums of its vectors."""
    return EmbeddedEngine(load(Path(place)))


class EmbeddedEngine:
    """`Engine` in a folder. Several threads may use it; a search sees one version."""

    def __init__(self, view: View) -> None:
        self._view: View | None = view
        self._folder, self.space = view.folder, view.space
        self.facts: Mapping[str, Any] = json.loads(view.meta["facts"])
        self._view_lock = Lock()  # never held for long
        self._writing = Lock()

    @property
    def revision(self) -> tuple[str, int]:
        return str(self._now.meta["identity"]), self._now.version

    @property
    def exact(self) -> bool:
        return self._now.graph is None

    @property
    def max_k(self) -> int:
        return max(1, self.count())

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._now.warnings

    def add(self, rows: Rows) -> None:
        if not len(rows):
            return
        vectors, var = self.space.gallery_vectors(rows.embeddings), self.space.var(rows.embeddings)
        texts = [
            (name, bytes.fromhex(digest), json.dumps(dict(metadata), ensure_ascii=False))
            for name, digest, metadata in zip(rows.ids, rows.digests, rows.metadata, strict=True)
        ]
        with self._transaction() as change:
            check_free_space(self._folder, 2 * vectors.nbytes)
            change.remove(change.base.find_in(change.db, "id", rows.ids).values())
            change.add(vectors, var, texts)
        self._tidy()

    def remove(self, ids: Sequence[str]) -> int:
        with self._transaction() as change:
            removed = change.remove(change.base.find_in(change.db, "id", ids).values())
        self._tidy()
        return removed

    def compact(self) -> None:
        with self._transaction() as change:
            change.compact()

    def search(self, vectors: NDArray[np.float32], k: int, where: Where | None = None) -> Found:
        return self._now.search(np.ascontiguousarray(vectors, dtype=np.float32), int(k), where)

    def rows(self, keys: Keys) -> Rows:
        view, places = self._find(keys)
        return view.rows_at(places)

    def records(self, keys: Keys) -> Records:
        view, places = self._find(keys)
        return view.records_at(places)

    def _find(self, keys: Keys) -> tuple[View, NDArray[np.int64]]:
        view = self._now
        places = view.places_of(np.asarray(keys, dtype=np.int64))
        if (places < 0).any():
            raise InvalidArgument(
                "keys",
                expected="keys of rows that are there",
                got=str(np.asarray(keys)[places < 0][0]),
                fix="the row was removed or replaced since: search again",
            )
        return view, places

    def find(self, ids: Sequence[str]) -> Rows:
        view, wanted = self._now, dict.fromkeys(ids)
        found = view.find("id", wanted)
        return view.rows_at(np.array([found[n] for n in wanted if n in found], dtype=np.int64))

    def scan(self, where: Where | None = None) -> Iterator[Block]:
        view = self._now
        step, places = max(1, _SCANNED // (4 * self.space.width)), view.places(where)
        blocks = (places[start : start + step] for start in range(0, len(places), step))
        return (Block(view.keys[some], view.vectors[some], view.var[some]) for some in blocks)

    def digests_of(self, ids: Sequence[str]) -> dict[str, str]:
        found = self.find(ids)
        return dict(zip(found.ids, found.digests, strict=True))

    def ids_of(self, digests: Sequence[str]) -> dict[str, str]:
        view = self._now
        wanted = dict.fromkeys(digest for digest in digests if SHA256.fullmatch(digest))
        found = view.find("digest", map(bytes.fromhex, wanted))
        ids = view.rows_at(np.array(list(found.values()), dtype=np.int64)).ids
        return {digest.hex(): name for digest, name in zip(found, ids, strict=True)}

    def count(self, where: Where | None = None) -> int:
        return self._now.count(where)

    def refresh(self) -> bool:
        before = self._now
        after = load(self._folder, before)
        with self._view_lock:
            if self._view is before:  # else a writer in another thread knows better
                self._view = after
        return after is not before

    def newest(self) -> Self | None:
        before = self._now
        after = load(self._folder, before)
        return None if after is before else type(self)(after)

    def describe(self) -> dict[str, Any]:
        view = self._now
        size, own = 0, (database.FILE, f"{database.FILE}-journal")
        for path in self._folder.iterdir():
            if path.name in own or OWN_FILE.fullmatch(path.name):
                with suppress(FileNotFoundError):  # files come and go beside a writer
                    size += path.stat().st_size
        return {
            "engine": "faiss",
            "place": str(self._folder),
            "kind": view.graph.kept.kind if view.graph else "flat",
            "asked_kind": view.meta["kind"],
            "version": view.version,
            "rows": view.count(),
            "removed": len(view.keys) - view.count(),
            "bytes": size,
        }

    def verify(self) -> list[str]:
        """Read and check everything again, in one transaction."""
        folder = self._now.folder
        try:
            with database.transaction(folder, "read") as db:
                view = View(folder, db)
                return [*view.warnings, *view.problems(db)]
        except InvalidFile as error:
            return [error.problem]

    def repair(self) -> list[str]:
        """Rebuild the graph and the lookups if something is wrong; return what was."""
        problems = self.verify()
        if problems:
            with self._transaction() as change:
                change.db.execute("REINDEX")
                if change.base.warnings:
                    change.build_graph(compact=True)
                change.changed = True
            problems.append("graph and lookups were built again")
        return problems

    def release(self) -> None:
        unload(self._now.vectors)

    def close(self) -> None:
        self._view = None

    @property
    def _now(self) -> View:
        view = self._view
        if view is None:
            raise EngineError("the index was closed", fix="open it again")
        return view

    @contextmanager
    def _transaction(self) -> Iterator["Transaction"]:
        """Begin to change the newest version, as the only writer.

        The connection is new each time: an older one would write to a folder that was replaced.
        """
        with self._writing, database.transaction(self._folder, "write") as db:
            now = self._now
            same = database.read_meta(self._folder, db)[0]["seal"] == now.meta["seal"]
            base = now if same else View(self._folder, db, now)
            _collect_garbage(self._folder, base)
            change = Transaction(db, base)
            yield change
            if not change.changed:
                return
            view = change.finish()
            db.execute("COMMIT")
            with self._view_lock:
                self._view = view
            db.execute("PRAGMA busy_timeout = 0")
            with suppress(sqlite3.OperationalError):  # then the next writer does it
                db.execute("BEGIN IMMEDIATE")  # files of another's uncommitted change must stay
                if database.read_meta(self._folder, db)[0]["seal"] == view.meta["seal"]:
                    _collect_garbage(self._folder, view)

    def _tidy(self) -> None:
        """Compact or extend the graph where due; the change itself is committed."""
        view = self._now
        with suppress(EngineError):  # it can wait
            if len(view.keys) - view.count() > MOST_DEAD * len(view.keys):
                self.compact()
            elif view.warnings or kind_wanted(view.meta["kind"], len(view.keys), view.covered, view.space.width):
                with self._transaction() as change:
                    change.build_graph()


class Transaction:
    """Uncommitted change of the newest version."""

    def __init__(self, db: sqlite3.Connection, base: View) -> None:
        self.db, self.base, self.changed = db, base, False
        self._meta, self._heads = dict(base.meta), list(base.heads)

    def remove(self, places: Iterable[int]) -> int:
        """Mark rows by position; their vectors stay in the file until `compact`."""
        base, gone = self.base, np.unique(np.fromiter(places, np.int64))
        if len(gone):
            dead = np.zeros(len(base.keys), bool) if base.alive is None else ~base.alive
            dead[gone] = True
            self._meta["removed"] = np.packbits(dead, bitorder="little").tobytes()
            self.db.executemany(
                "UPDATE rows SET removed_in = ? WHERE key = ?",
                ((base.version + 1, key) for key in base.keys[gone].tolist()),
            )
            self.changed = True
        return len(gone)

    def add(self, vectors: Vectors, var: NDArray[np.float64], texts: list[tuple[str, bytes, str]]) -> None:
        first = self._meta["next_key"]
        keys = np.arange(first, first + len(var), dtype=np.int64)
        self._append(keys, var, lambda some: vectors[some])
        self.db.executemany(
            "INSERT INTO rows VALUES(?, ?, ?, ?, ?, NULL)",
            ((key, *row, database.row_crc(key, *row)) for key, row in enumerate(texts, first)),
        )
        self._meta["next_key"] = first + len(var)

    def compact(self) -> None:
        """Copy the live rows to a new file in the same order, then build the graph."""
        base, places = self.base, self.base.places()
        if len(places) < len(base.keys):
            check_free_space(base.folder, 4 * len(places) * base.space.width)
            self.db.execute("DELETE FROM blocks")
            self._heads, vectors = [], f"{secrets.token_hex(16)}.vectors"
            self._meta |= {"vectors": vectors, "removed": b"", "graph": "null"}
            keys, var = base.keys[places], base.var[places]
            self._append(keys, var, lambda some: base.vectors[places[some]])
            before, since = json.loads(self._meta["compacted"])
            now = int(time.time())
            if now - since >= KEPT_FOR:  # else somebody may read a version from before it
                self.db.execute("DELETE FROM rows WHERE removed_in <= ?", (before,))
                self._meta |= {"purged": before, "compacted": json.dumps([base.version + 1, now])}
        self.build_graph(compact=True)

    def build_graph(self, *, compact: bool = False) -> None:
        base, folder, width = self.base, self.base.folder, self.base.space.width
        moved = self._meta["vectors"] != base.meta["vectors"]
        rows = sum(head[1] for head in self._heads)
        compact = compact or bool(base.warnings)  # a damaged one is built again whatever was added
        covered = 0 if moved else base.covered
        kind = kind_wanted(base.meta["kind"], rows, covered, width, compact=compact)
        if kind:
            check_free_space(folder, rows * (4 * width + 32 if kind == "ivf" else 8 * LINKS + 32))
            vectors = map_vectors(folder / self._meta["vectors"], rows=rows, width=width)
            kept = write_index(folder, vectors, kind, None if moved else base.graph)
            self._meta["graph"] = json.dumps(kept)
            self.changed = True
        elif base.warnings:
            self._meta["graph"], self.changed = "null", True

    def finish(self) -> View:
        """Write the checksums and return the new version."""
        self._meta["version"] = self.base.version + 1
        database.write_meta(self.db, self._meta, self._heads)
        return View(self.base.folder, self.db, self.base)

    def _append(self, keys: Ints, var: NDArray[np.float64], vectors_at: Callable[[slice], Vectors]) -> None:
        """Append rows block by block and flush them; no version refers to these bytes yet."""
        base, done = self.base, sum(head[1] for head in self._heads)
        start, end = done // BLOCK * BLOCK, done + len(keys)
        columns = np.empty(end - start, COLUMNS)
        columns["key"] = np.concatenate([base.keys[start:done], keys])
        columns["var"] = np.concatenate([base.var[start:done], var])
        self.changed = True
        if not len(keys):
            return
        path = base.folder / self._meta["vectors"]
        with appended(path, rows=done, width=base.space.width) as file:
            for first in range(start, end, BLOCK):
                at, stop = max(first, done), min(first + BLOCK, end)
                vectors = vectors_at(slice(at - done, stop - done))
                content = columns[first - start : stop - start].tobytes()
                crc = self._heads.pop()[2] if at > first else 0  # the last block is continued
                file.write(vectors.data)
                head = (first, stop - first, zlib.crc32(vectors.data, crc), zlib.crc32(content))
                self.db.execute("INSERT OR REPLACE INTO blocks VALUES(?, ?, ?, ?, ?)", (*head, content))
                self._heads.append(head)


def _collect_garbage(folder: Path, view: View) -> None:
    """Remove files that the newest version does not use; open ones stay readable."""
    graph = json.loads(view.meta["graph"])
    needed = {view.meta["vectors"], graph and graph[0]}
    for path in folder.iterdir():
        if OWN_FILE.fullmatch(path.name) and path.name not in needed:
            with suppress(OSError):
                path.unlink()
