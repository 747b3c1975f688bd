"""The SQLite file of an index: tables, connections, checksums, and conditions as SQL."""

import errno
import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from surefind.engines.engine import EngineError
from surefind.engines.where import VAR, Where
from surefind.errors import InvalidFile
from surefind.storage import DAMAGE, DOCUMENTS, WAIT, Damaged

FORMAT = 2
FILE = "index.db"
PATIENCE = 60.0  # seconds that a writer waits for another, and a reader for a commit
SYNCHRONOUS = "EXTRA"  # the folder is flushed too when the journal is deleted, which is the commit

# Rows that were removed stay for some minutes, for readers of older versions.
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
_LOOKUPS = {
    "id": "SELECT key FROM rows WHERE id = ?",
    "digest": "SELECT key FROM rows WHERE digest = ? AND digest != x''",
}

Meta = dict[str, Any]
Head = tuple[int, int, int, int]  # of a block: first, count, vectors_crc, columns_crc


def create_tables(folder: Path, meta: Meta) -> None:
    """Make the database of an empty index in one transaction."""
    path = folder / FILE
    with closing(sqlite3.connect(path, isolation_level=None, timeout=PATIENCE)) as db:
        db.execute(f"PRAGMA synchronous={SYNCHRONOUS}")
        db.execute("BEGIN IMMEDIATE")
        if _has_tables(db):
            raise InvalidFile(
                f"there is an index in {folder} already", fix="open it, or choose another folder"
            )
        for statement in _SCHEMA:
            db.execute(statement)
        write_meta(db, meta, [])
        db.execute("COMMIT")


def connect(folder: Path, *, write: bool = False) -> sqlite3.Connection:
    """Open a connection for one use; closing it rolls back, and ends its locks at once.

    SQLite opens the file for reading only where it may not be written. Do not open it by other
    means: closing a file drops all locks that the process has on it.
    """
    path = folder / FILE
    if not path.is_file():
        if (folder / "CURRENT").exists():
            raise InvalidFile(
                f"{folder} was written by surefind 0.1, whose format is no longer read",
                fix="remove the folder of the index and make it anew: "
                "surefind index MODEL IMAGES -o INDEX",
            )
        raise InvalidFile(f"{folder} holds no index", fix="check the path, or create the index")
    uri = f"file:{quote(str(path.absolute()))}?mode=rw"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=PATIENCE)
    try:
        if write:
            db.execute(f"PRAGMA synchronous={SYNCHRONOUS}")
            db.execute("PRAGMA cache_spill=OFF")  # a spill would lock readers out until the commit
        if not _has_tables(db):
            raise InvalidFile(f"{folder} holds no index: its making was stopped", fix="create it")
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """Run the block in a read transaction: no writer commits before it ends."""
    with reported_errors(folder, "read"), closing(connect(folder)) as db:
        db.execute("BEGIN")
        yield db


@contextmanager
def reported_errors(folder: Path, doing: str) -> Iterator[None]:
    """Turn errors of SQLite and of the operating system into this package's."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", None) or ""
        if code.startswith("SQLITE_BUSY"):
            raise EngineError(
                f"another process is writing to {folder}",
                fix=WAIT,
            ) from error
        if not code or code.startswith(DAMAGE):  # none: a text that is not UTF-8
            raise Damaged(folder / FILE, str(error)) from error
        raise refused(folder, doing, str(error)) from error
    except UnicodeDecodeError as error:  # a text, or a message of SQLite that quotes one
        raise Damaged(folder / FILE, "a text in it is not UTF-8") from error
    except OSError as error:
        if doing == "read" and error.errno in (errno.ENOENT, errno.EIO, errno.EISDIR):
            name = Path(error.filename) if error.filename else folder / FILE
            raise Damaged(name, error.strerror or str(error)) from error
        raise refused(folder, doing, error.strerror or str(error)) from error


def refused(folder: Path, doing: str, why: str) -> EngineError:
    """Describe a disk that is full, read-only or broken."""
    state = "; it is as it was" if doing == "write" else ""
    return EngineError(
        f"cannot {doing} the index in {folder}: {why}{state}",
        fix="free some space or make the folder writable, then do it again",
    )


def read_meta(folder: Path, db: sqlite3.Connection) -> tuple[Meta, list[Head]]:
    """Read what describes a version, and compare it with its checksum."""
    meta: Meta = dict(db.execute("SELECT key, value FROM meta"))
    heads = db.execute(
        "SELECT first, count, vectors_crc, columns_crc FROM blocks ORDER BY first"
    ).fetchall()
    if meta.get("seal") != _seal(meta, heads):
        raise Damaged(folder / FILE, "its checksum is wrong")
    if meta.get("format") != FORMAT:
        raise InvalidFile(
            f"{folder / FILE} has format {meta.get('format')!r}, this version reads {FORMAT}",
            fix="open it with the version of surefind that wrote it",
        )
    return meta, heads


def write_meta(db: sqlite3.Connection, meta: Meta, heads: list[Head]) -> None:
    """Replace what describes the version, with its checksum."""
    meta["seal"] = _seal(meta, heads)
    db.executemany("INSERT OR REPLACE INTO meta VALUES(?, ?)", meta.items())


def row_crc(key: int, name: str, digest: bytes, metadata: str) -> int:
    """Checksum of a row: SQLite itself does not notice a flipped bit in a value."""
    return zlib.crc32(b"\x1f".join((b"%d" % key, name.encode(), digest, metadata.encode())))


def keys_with(
    db: sqlite3.Connection, column: str, values: Iterable[Any]
) -> Iterator[tuple[Any, int]]:
    """Look up rows by id or by digest; removed ones too. Yields (value, key), keys ascending."""
    for value in values:
        with suppress(UnicodeEncodeError):  # a text that cannot be kept belongs to no row
            for (key,) in sorted(db.execute(_LOOKUPS[column], (value,)).fetchall()):
                yield value, key


def sql_of(where: Where) -> tuple[str, list[str]]:
    """Return the conditions on metadata as SQL, and its parameters.

    Names of fields cannot hold quotes. Values are bound as JSON, so that SQLite reads a number in
    a condition as it reads the same number in the metadata.
    """
    terms, values = [], []
    for condition in where.conditions:
        if condition.field == VAR:
            continue
        field = f"(metadata, '$.{condition.field}')"
        if condition.kind == "bool":
            wanted = {bool(value) for value in condition.values}
            wanted = {True, False} - wanted if condition.op == "!=" else wanted
            names = ",".join(f"'{str(value).lower()}'" for value in sorted(wanted))
            terms.append(f"json_type{field} IN ({names})")
            continue
        right = (
            "(SELECT value FROM json_each(?))" if condition.op == "in" else "json_extract(?,'$')"
        )
        values.append(json.dumps(condition.value))
        terms.append(f"json_extract{field} {condition.op} {right}")
        if condition.kind == "number":  # true is 1 to json_extract
            terms.append(f"json_type{field} IN ('integer', 'real')")
        elif condition.op not in ("=", "in"):  # SQLite orders numbers before texts
            terms.append(f"typeof(json_extract{field}) = 'text'")
    return " AND ".join(terms), values


def _has_tables(db: sqlite3.Connection) -> bool:
    return bool(db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0])


def _seal(meta: Mapping[str, Any], heads: list[Head]) -> str:
    """Over all that is small: blocks and rows have checksums of their own."""
    facts = sorted(((key, value) for key, value in meta.items() if key != "seal"), key=repr)
    return hashlib.sha256(repr((facts, heads)).encode(errors="replace")).hexdigest()
