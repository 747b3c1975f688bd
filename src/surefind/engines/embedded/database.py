"""SQLite file of an index: tables, connections, checksums, and conditions as SQL."""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from surefind.engines.base import EngineError
from surefind.engines.filters import VAR, Where
from surefind.errors import InvalidFile
from surefind.storage import DOCUMENTS, CorruptFile, sqlite_file

_HAS_TABLES = "SELECT 1 FROM sqlite_master WHERE name = 'meta'"
FORMAT = 2
FILE = "index.db"
PATIENCE = 60.0  # seconds to wait for the lock

# Removed rows stay for some minutes, for readers of older versions.
# The columns of a block are keys and variances of its rows, in the order of the vectors file.
_SCHEMA = (
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE rows(key INTEGER PRIMARY KEY, id TEXT NOT NULL, digest BLOB NOT NULL,"
    " metadata TEXT NOT NULL, crc INTEGER NOT NULL, removed_in INTEGER)",
    "CREATE INDEX rows_by_id ON rows(id)",
    "CREATE INDEX rows_by_digest ON rows(digest) WHERE digest != x''",
    "CREATE INDEX rows_by_label ON rows(json_extract(metadata, '$.label'))",
    "CREATE TABLE blocks(first INTEGER PRIMARY KEY, count INTEGER NOT NULL,"
    " vectors_crc INTEGER NOT NULL, columns_crc INTEGER NOT NULL, columns BLOB NOT NULL)",
    DOCUMENTS,
)
LOOKUPS = {  # by id or by digest; removed rows too
    "id": "SELECT key FROM rows WHERE id = ?",
    "digest": "SELECT key FROM rows WHERE digest = ? AND digest != x''",
}

Meta = dict[str, Any]
Head = tuple[int, int, int, int]  # of a block: first, count, vectors_crc, columns_crc


def create_tables(folder: Path, meta: Meta) -> None:
    """Create the database of an empty index in one transaction."""
    with sqlite_file(folder / FILE, "write", create=True) as db:
        db.execute("BEGIN IMMEDIATE")
        if db.execute(_HAS_TABLES).fetchone():
            raise InvalidFile(
                f"there is an index in {folder} already", fix="open it, or choose another folder"
            )
        for statement in _SCHEMA:
            db.execute(statement)
        write_meta(db, meta, [])
        db.execute("COMMIT")


@contextmanager
def transaction(folder: Path, doing: str) -> Iterator[sqlite3.Connection]:
    """Begin a transaction to read or write; it is rolled back unless the block commits."""
    path = folder / FILE
    if not path.is_file():
        raise InvalidFile(f"{folder} holds no index", fix="check the path, or create the index")
    with sqlite_file(path, doing, refusal=EngineError, patience=PATIENCE) as db:
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
    return zlib.crc32(b"\x1f".join((b"%d" % key, name.encode(), digest, metadata.encode())))


def sql_of(where: Where) -> tuple[str, list[str]]:
    """Return the conditions on metadata as SQL, and its parameters.

    Names of fields cannot hold quotes. Values are bound as JSON, so that SQLite reads a number in
    a condition as it reads the same number in the metadata.
    """
    terms, values = [], []
    for condition in where.conditions:
        if condition.field == VAR:
            continue
        field, op = f"(metadata, '$.{condition.field}')", condition.op
        if condition.kind == "bool":
            wanted = {bool(value) for value in condition.values}
            wanted = {True, False} - wanted if op == "!=" else wanted
            names = ",".join(f"'{str(value).lower()}'" for value in sorted(wanted))
            terms.append(f"json_type{field} IN ({names})")
            continue
        right = "(SELECT value FROM json_each(?))" if op == "in" else "json_extract(?,'$')"
        values.append(json.dumps(condition.value))
        terms.append(f"json_extract{field} {op} {right}")
        if condition.kind == "number":  # true is 1 to json_extract
            terms.append(f"json_type{field} IN ('integer', 'real')")
        elif op not in ("=", "in"):  # SQLite orders numbers before texts
            terms.append(f"typeof(json_extract{field}) = 'text'")
    return " AND ".join(terms), values


def _seal(meta: Mapping[str, Any], heads: list[Head]) -> str:
    """Checksum of the description; blocks and rows have their own."""
    facts = sorted(((key, value) for key, value in meta.items() if key != "seal"), key=repr)
    return hashlib.sha256(repr((facts, heads)).encode(errors="replace")).hexdigest()
