"""SQLite file of an index: tables, transactions, checksums, and a snapshot of one version."""

import hashlib
import json
import os
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.engines.base import EngineError, Found, Records, Rows, Space
from surefind.engines.embedded.ann import AnnFile, AnnIndex
from surefind.engines.embedded.vectors import Head, Ints, Mask, Selection, map_vectors, search_rows
from surefind.engines.filters import COMPARE, VAR, Condition, Where, any_value, check_fields
from surefind.errors import InvalidFile
from surefind.storage import DOCUMENTS, SQLITE_ERRORS, CorruptFile, connect, sqlite_error, sqlite_file

_HAS_TABLES = "SELECT 1 FROM sqlite_master WHERE name = 'meta'"
FORMAT = 2
FILE = "index.db"
PATIENCE = 60.0  # seconds to wait for the lock
COLUMNS = np.dtype([("key", "<i8"), ("var", "<f8")])
OWN_FILE = re.compile(r"[0-9a-f]{32}\.(vectors|hnsw|ivf)")
SELECTION_BYTES = 2**26  # of the masks of filters that are kept
INDEXED_FROM = 10_000  # rows; with fewer, reading all metadata takes milliseconds

# Filters by a field read this index alone, whatever the comparison.
_FIELD_INDEX = (
    "CREATE INDEX IF NOT EXISTS {name} ON rows(json_type(metadata, '$.{field}'), json_extract(metadata, '$.{field}'))"
)
# Removed rows stay for some minutes, for readers of older versions.
# The columns of a block are keys and variances of its rows, in the order of the vectors file.
_SCHEMA = (
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE rows(key INTEGER PRIMARY KEY, id TEXT NOT NULL, digest BLOB NOT NULL,"
    " metadata TEXT NOT NULL, crc INTEGER NOT NULL, removed_in INTEGER)",
    "CREATE INDEX rows_by_id ON rows(id)",
    "CREATE INDEX rows_by_digest ON rows(digest) WHERE digest != x''",
    _FIELD_INDEX.format(name="rows_by_label", field="label"),
    "CREATE TABLE blocks(first INTEGER PRIMARY KEY, count INTEGER NOT NULL,"
    " vectors_crc INTEGER NOT NULL, columns_crc INTEGER NOT NULL, columns BLOB NOT NULL)",
    DOCUMENTS,
)
LOOKUPS = {  # by id or by digest; removed rows too
    "id": "SELECT key FROM rows WHERE id = ?",
    "digest": "SELECT key FROM rows WHERE digest = ? AND digest != x''",
}

Meta = dict[str, Any]


def create_tables(folder: Path, meta: Meta) -> None:
    """Create the database of an empty index in one transaction."""
    with sqlite_file(folder / FILE, "write", create=True) as db:
        db.execute("BEGIN IMMEDIATE")
        if db.execute(_HAS_TABLES).fetchone():
            raise InvalidFile(f"there is an index in {folder} already", fix="open it, or choose another folder")
        for statement in _SCHEMA:
            db.execute(statement)
        write_meta(db, meta, [])
        db.execute("COMMIT")


@contextmanager
def transaction(folder: Path, doing: str, *, patience: float | None = None) -> Iterator[sqlite3.Connection]:
    """Begin a transaction to read or write; it is rolled back unless the block commits."""
    path = folder / FILE
    if not path.is_file():
        raise InvalidFile(f"{folder} holds no index", fix="check the path, or create the index")
    patience = PATIENCE if patience is None else patience
    with sqlite_file(path, doing, refusal=EngineError, patience=patience) as db:
        db.execute("BEGIN" if doing == "read" else "BEGIN IMMEDIATE")
        if not db.execute(_HAS_TABLES).fetchone():
            raise InvalidFile(f"{folder} holds no index: its making was stopped", fix="create it")
        yield db


def read_meta(folder: Path, db: sqlite3.Connection) -> tuple[Meta, list[Head]]:
    """Read the description of the version and verify its checksum."""
    meta: Meta = dict(db.execute("SELECT key, value FROM meta"))
    query = "SELECT first, count, vectors_crc, columns_crc FROM blocks ORDER BY first"
    heads = db.execute(query).fetchall()
    if meta.get("seal") != _seal(meta, heads):
        raise CorruptFile(folder / FILE, "its checksum is wrong")
    if meta.get("format") != FORMAT:
        raise InvalidFile(
            f"{folder / FILE} has format {meta.get('format')!r}, this version reads {FORMAT}",
            fix="open it with the version of surefind that wrote it",
        )
    return meta, heads


def write_meta(db: sqlite3.Connection, meta: Meta, heads: list[Head]) -> None:
    """Replace the description of the version and its checksum."""
    meta["seal"] = _seal(meta, heads)
    db.executemany("INSERT OR REPLACE INTO meta VALUES(?, ?)", meta.items())


def row_crc(key: int, name: str, digest: bytes, metadata: str) -> int:
    """Checksum of a row: SQLite does not detect a flipped bit in a value."""
    return zlib.crc32(b"%d\x1f%b\x1f%b\x1f%b" % (key, name.encode(), digest, metadata.encode()))


def sql_of(condition: Condition) -> tuple[str, list[str]]:
    """Return a condition on metadata as SQL, and its parameters.

    Names of fields cannot hold quotes. Values are bound as JSON, so that SQLite reads a number in
    a condition as it reads the same number in the metadata.
    """
    field, op, types = f"(metadata, '$.{condition.field}')", condition.op, ["text"]
    if condition.kind == "bool":
        wanted = {bool(value) for value in condition.values}
        types = [str(value).lower() for value in (True, False) if (value in wanted) != (op == "!=")]
    elif condition.kind == "number":
        types = ["integer", "real"]  # true is 1 to json_extract
    text = f"json_type{field} IN ({', '.join(map(repr, types))})"
    if condition.kind == "bool":
        return text, []
    right = "(SELECT value FROM json_each(?))" if op == "in" else "json_extract(?,'$')"
    return f"{text} AND json_extract{field} {op} {right}", [json.dumps(condition.value)]


def index_field(folder: Path, field: str) -> None:
    """Create the index for filters by a field; leave it if the folder is read-only or in use."""
    if os.access(folder / FILE, os.W_OK):
        name = "rows_by_label" if field == "label" else f"field_{field.encode().hex()}"
        with suppress(EngineError), transaction(folder, "write", patience=0) as db:
            db.execute(_FIELD_INDEX.format(name=name, field=field))
            db.execute("COMMIT")


def _seal(meta: Meta, heads: list[Head]) -> str:
    """Checksum of the description; blocks and rows have their own."""
    facts = sorted(((key, value) for key, value in meta.items() if key != "seal"), key=repr)
    return hashlib.sha256(repr((facts, heads)).encode(errors="replace")).hexdigest()


def load(folder: Path, known: "View | None" = None) -> "View":
    """Return the newest version: `known` itself if nothing changed, else what it lacks is read."""
    with transaction(folder, "read") as db:
        newest = db.execute("SELECT value FROM meta WHERE key = 'seal'").fetchone()
        if known is not None and not known.warnings and newest == (known.meta["seal"],):
            return known
        view = View(folder, db, known)
    if known is not None and (view.meta, view.warnings) == (known.meta, known.warnings):
        return known
    return view


class View:
    """Snapshot of arrays in memory and mapped files; no transaction stays open."""

    def __init__(self, folder: Path, db: sqlite3.Connection, known: "View | None" = None) -> None:
        """Read and verify what `known` lacks, in a transaction that keeps files from removal."""
        self.folder, self._path, self._lock = folder, folder / FILE, Lock()
        self.meta, self.heads = read_meta(folder, db)
        self.warnings: tuple[str, ...] = ()
        self.graph: AnnIndex | None = None
        self._selections: dict[Any, Selection] = {}
        self._idle: dict[tuple[int, int], sqlite3.Connection] = {}  # by process and inode
        if known is not None:
            known.check_identity(self.meta.get("identity"))
        try:
            self.version = int(self.meta["version"])
            self.space = Space(self.meta["family"], self.meta["dim"], self.meta["ranking"])
            width = self.space.width
            shared = 0  # blocks that `known` has too: rows are only appended to a file
            if known is not None and known.meta["vectors"] == self.meta["vectors"]:
                pairs = zip(known.heads, self.heads, strict=False)
                shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            self._read_columns(db, known, shared)
            graph = json.loads(self.meta["graph"])
            kept = AnnFile(*graph) if graph else None
            names = [self.meta["vectors"], *([kept.name] if kept else [])]
            if not all(map(OWN_FILE.fullmatch, names)):
                raise ValueError
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise CorruptFile(folder / FILE, "it does not describe an index") from error
        self.vectors = map_vectors(
            folder / self.meta["vectors"], rows=len(self.keys), width=width, blocks=self.heads[shared:]
        )
        if known is not None and known.graph is not None and known.graph.kept == kept:
            self.graph = known.graph
        elif kept is not None:
            try:
                self.graph = AnnIndex(kept, folder / kept.name, self.vectors)
            except CorruptFile as error:
                self.warnings = (
                    f"{error.problem}; searches are exhaustive until it is built again, "
                    "by the next write or `surefind verify --repair`",
                )

    def check_identity(self, identity: Any) -> None:
        if identity != self.meta["identity"]:
            problem = f"another index was made in {self.folder} meanwhile"
            raise EngineError(problem, fix="open it again")

    @property
    def covered(self) -> int:
        """Number of rows, from the first, that the graph covers."""
        return self.graph.kept.covered if self.graph else 0

    def count(self, where: Where | None = None) -> int:
        chosen = self.selection(where)
        return len(self.keys) if chosen is None else chosen.count

    def selection(self, where: Where | None) -> Selection | None:
        """Return the live rows that satisfy `where`; None if that is all rows."""
        return None if where is None and self.alive is None else self._selected(where or Where(()))

    def _selected(self, where: Where) -> Selection:
        # to Python 1 is True, which is another condition here
        name = tuple((c.field, c.op, c.kind, c.value) for c in where.conditions)
        with self._lock:
            found = self._selections.pop(name, None)
        if found is None:
            found = Selection(self._satisfying(where))
            if name and not found.count and self.count():
                self._check_fields(where)
        with self._lock:  # as the last one used; the first is dropped
            self._selections[name] = found
            if len(self._selections) > max(1, SELECTION_BYTES // (1024 + len(self.keys))):
                del self._selections[next(iter(self._selections))]
        return found

    def places(self, where: Where | None = None) -> Ints:
        """Return positions in the vectors file of the selected rows, ascending."""
        chosen = self.selection(where)
        return np.arange(len(self.keys)) if chosen is None else np.flatnonzero(chosen.mask)

    def places_of(self, keys: Ints) -> Ints:
        """Return positions of rows by key; -1 where there is none."""
        if not len(self.keys):
            return np.full(len(keys), -1)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        there = self.keys[at] == keys
        return np.where(there if self.alive is None else there & self.alive[at], at, -1)

    def find(self, column: str, values: Iterable[Any]) -> dict[Any, int]:
        """Return the position of the newest row with each known id or digest."""
        with self._rows_of_version() as db:
            return self.find_in(db, column, values)

    def find_in(self, db: sqlite3.Connection, column: str, values: Iterable[Any]) -> dict[Any, int]:
        found = []
        for value in values if len(self.keys) else ():
            with suppress(UnicodeEncodeError):  # a text that cannot be kept belongs to no row
                keys = sorted(db.execute(LOOKUPS[column], (value,)).fetchall())
                found += [(value, key) for (key,) in keys]
        places = self.places_of(np.array([key for _, key in found], dtype=np.int64)).tolist()
        pairs = zip(found, places, strict=True)
        return {value: place for (value, _), place in pairs if place >= 0}

    def rows_at(self, places: Ints) -> Rows:
        """Read rows and verify their checksums."""
        ids, digests, metadata = self.records_at(places)
        embeddings = self.space.embeddings(self.vectors[places], self.var[places])
        return Rows(ids, embeddings, digests, metadata)

    def records_at(self, places: Ints) -> Records:
        """Read rows without their embeddings, and verify their checksums."""
        keys, found = self.keys[places].tolist(), dict[int, Sequence[Any]]()
        if keys:
            with self._rows_of_version() as db:
                query = "SELECT id, digest, metadata, crc, key FROM rows WHERE key IN (SELECT value FROM json_each(?))"
                found = {row[4]: row for row in db.execute(query, (json.dumps(keys),))}
        rows = [self._checked(key, found.get(key)) for key in keys]
        ids, digests, texts, *_ = zip(*rows, strict=True) if rows else ((), (), ())
        metadata = json.loads(f"[{','.join(texts)}]")  # one call
        return Records(ids, tuple(map(bytes.hex, digests)), tuple(metadata))

    def search(self, query: NDArray[np.float32], k: int, where: Where | None) -> Found:
        """Return the k nearest rows of each query, or all there are."""
        chosen, count, graph = self.selection(where), self.count(where), self.graph
        k = min(k, count)
        if graph is not None and k and graph.pays(len(query), k, count, len(self.keys)):
            near = graph.search(self.vectors, query, k, chosen)
        else:
            near = search_rows(self.vectors, query, k, chosen)
        return Found(self.keys[near.rows], near.distance, self.vectors[near.rows], self.var[near.rows])

    def problems(self, db: sqlite3.Connection) -> Iterator[str]:
        """Verify checksums, lookups and values of all rows."""
        for (text,) in db.execute("PRAGMA integrity_check(5)").fetchall():
            if text != "ok":
                yield f"{self.folder / FILE} is damaged: {text}"
        if not (np.diff(self.keys) > 0).all() or (self.keys >= self.meta["next_key"]).any():
            yield "the keys of the rows do not ascend"
        if not (np.isfinite(self.var).all() and (self.var > 0).all()):
            yield "a variance is not positive and finite"
        for first, count, *_ in self.heads:
            if not np.isfinite(self.vectors[first : first + count]).all():
                yield f"a vector of rows {first} to {first + count} is not finite"
        alive = set(self.keys[self.places()].tolist())
        ids: set[str] = set()
        query = "SELECT id, digest, metadata, crc, key FROM rows WHERE removed_in IS NULL"
        for row in db.execute(query):
            name, key = row[0], row[4]
            try:
                self._checked(key, row)
            except CorruptFile as error:
                yield error.problem
                continue
            if name in ids or key not in alive:
                yield f"row {key} is not of this version, or has the id of another: {name!r}"
            ids.add(name)
            alive.discard(key)
        yield from (f"row {key} is missing or damaged" for key in sorted(alive)[:5])

    def _read_columns(self, db: sqlite3.Connection, known: "View | None", shared: int) -> None:
        blobs, rows = [], sum(head[1] for head in self.heads[:shared])
        kept = rows
        for first, count, _, crc in self.heads[shared:]:
            query = "SELECT columns FROM blocks WHERE first = ?"
            (blob,) = db.execute(query, (first,)).fetchone()
            if first != rows or len(blob) != count * COLUMNS.itemsize or zlib.crc32(blob) != crc:
                raise CorruptFile(self.folder / FILE, f"keys or variances of rows from {first} on")
            blobs.append(blob)
            rows += count
        columns = np.frombuffer(b"".join(blobs), COLUMNS)
        keys, var = (known.keys, known.var) if known else (columns["key"], columns["var"])
        self.keys: Ints = np.concatenate([keys[:kept], columns["key"]])
        self.var: NDArray[np.float64] = np.concatenate([var[:kept], columns["var"]])
        self.alive: Mask | None = None
        removed = np.unpackbits(np.frombuffer(self.meta["removed"], np.uint8), bitorder="little")
        if removed.any():
            self.alive = np.ones(len(self.keys), bool)
            self.alive[: len(removed)] = removed[: len(self.keys)] == 0

    def _satisfying(self, where: Where) -> Mask:
        """Return the live rows that satisfy all conditions: each by itself, as SQLite uses one index."""
        alive = np.ones(len(self.keys), bool) if self.alive is None else self.alive
        if len(where.conditions) != 1:
            masks = [self._selected(Where((one,))).mask for one in where.conditions]
            return np.asarray(np.logical_and.reduce([alive, *masks]))
        (condition,) = where.conditions
        if condition.field == VAR and condition.op == "in":
            return alive & np.isin(self.var, np.array(condition.values, dtype=np.float64))
        if condition.field == VAR:
            return np.asarray(alive & COMPARE[condition.op](self.var, condition.value))
        if condition.op == "!=" and condition.kind != "bool":  # nearly all rows, whatever the value
            equal, every = replace(condition, op="="), any_value(condition.field, condition.kind)
            return ~self._selected(Where((equal,))).mask & self._selected(Where((every,))).mask
        text, values = sql_of(condition)
        query = f"SELECT json_group_array(key) FROM rows WHERE {text}"  # noqa: S608
        with self._rows_of_version() as db:
            plan = str(db.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall())
        if "SCAN rows" in plan and len(self.keys) >= INDEXED_FROM:
            index_field(self.folder, condition.field)
        with self._rows_of_version() as db:
            (keys,) = db.execute(query, values).fetchone()
        places = self.places_of(np.sort(np.fromstring(keys[1:-1], np.int64, sep=",")))
        mask = np.zeros(len(self.keys), bool)
        mask[places[places >= 0]] = True  # rows of other versions have none
        return mask

    def _check_fields(self, where: Where) -> None:
        """Raise InvalidArgument if a field or the type of its values is unknown."""
        alive = "removed_in IS NULL"
        with self._rows_of_version() as db:

            def exists(some: Where) -> bool:
                text, values = sql_of(some.conditions[0])
                query = f"SELECT 1 FROM rows WHERE {text} AND {alive} LIMIT 1"  # noqa: S608
                return db.execute(query, values).fetchone() is not None

            every = f"SELECT DISTINCT each.key FROM rows, json_each(metadata) AS each WHERE {alive}"  # noqa: S608
            check_fields(where, exists, lambda: (name for (name,) in db.execute(every)))

    @contextmanager
    def _rows_of_version(self) -> Iterator[sqlite3.Connection]:
        """Begin to read; raise EngineError if rows of this version were purged.

        Connections stay open for the next read, unless the file is another one by then.
        """
        path = self._path
        try:
            file = (os.getpid(), path.stat().st_ino)  # a connection must not cross a fork
            db = self._idle.pop(file, None)
            if db is None:
                db = connect(path, patience=PATIENCE)
                db.execute("PRAGMA cache_size=-16384")  # kB
        except SQLITE_ERRORS as error:
            raise sqlite_error(error, path, "read", EngineError) from error
        try:
            db.execute("BEGIN")
            query = "SELECT value FROM meta WHERE key IN ('identity', 'purged') ORDER BY key"
            (identity,), (purged,) = db.execute(query)
            self.check_identity(identity)
            if purged > self.version:
                raise EngineError(
                    f"version {self.version} of the index in {self.folder} was compacted away",
                    fix="refresh it, or open it again",
                )
            yield db
            db.execute("ROLLBACK")
        except BaseException as error:
            db.close()
            if isinstance(error, SQLITE_ERRORS):
                raise sqlite_error(error, path, "read", EngineError) from error
            raise
        if self._idle.setdefault(file, db) is not db:  # one is enough
            db.close()

    def __del__(self) -> None:
        # Forgotten connections stay open until the garbage collector finds their cycles.
        for db in getattr(self, "_idle", {}).values():
            db.close()

    def _checked(self, key: int, row: Sequence[Any] | None) -> Sequence[Any]:
        """Return id, digest, metadata and checksum of a row after verifying the checksum."""
        if row is None:
            raise CorruptFile(self.folder / FILE, f"row {key} is missing")
        name, digest, text, crc, _ = row
        try:
            written = row_crc(key, name, digest, text) == crc
        except (AttributeError, TypeError):  # a value of another type
            written = False
        if not written:
            raise CorruptFile(self.folder / FILE, f"row {key} is not as it was written")
        return row
