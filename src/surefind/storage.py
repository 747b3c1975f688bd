"""Durable storage: atomic file writes, checksummed JSON, documents in SQLite."""

import errno
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from os import fsync
from pathlib import Path
from secrets import randbits
from tempfile import TemporaryFile
from typing import Any, BinaryIO
from urllib.parse import quote

from surefind.errors import InvalidFile, SurefindError

LARGEST = 64 * 2**20  # bytes of a JSON file; nothing of that size is ever written
PATIENCE = 600.0  # seconds; while an index is compacted its file is locked
DOCUMENTS = (
    "CREATE TABLE IF NOT EXISTS documents(name TEXT, part INTEGER, content BLOB NOT NULL,"
    " sha256 BLOB NOT NULL, PRIMARY KEY(name, part)) WITHOUT ROWID"
)
SYNCHRONOUS = "EXTRA"  # also flush the folder when the journal is deleted, which is the commit
# Codes of SQLite's errors that mean a corrupt file.
_CORRUPTION = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_MISMATCH", "SQLITE_FORMAT")
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError, OSError)  # SQLite may quote a damaged text
_PART = 2**28  # bytes of a document in a row; SQLite has at most 10^9


class CorruptFile(InvalidFile):
    """A file that does not contain what was written."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} is damaged: {why}", fix="restore the folder from a copy, or make it again")


def write_whole(
    path: Path, content: bytes | memoryview, *, fix: str = "choose a folder that exists, is writable and has free space"
) -> None:
    """Write a file atomically: an older one stays until the new one is on the disk."""
    try:
        with whole_file(path) as file:
            _put(file, content)
    except OSError as error:
        raise InvalidFile(f"cannot write {path}: {error.strerror}", fix=fix) from error


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that is flushed and renamed to `path` when the block succeeds."""
    unfinished = path.with_name(f".{path.name}.{randbits(64)}.part")  # not that of another thread
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def make_writable(folder: Path) -> None:
    """Create a folder durably and check that files can be written there."""
    try:
        new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
        if new:
            sync_folder(folder.parent)
    except OSError as error:
        raise InvalidFile(f"cannot write {folder}: {error.strerror}", fix="choose a writable folder") from error


def sync_folder(folder: Path) -> None:
    """Flush a folder: without it a power cut may lose names that are new in it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network disks cannot; their renames are durable
            raise
    finally:
        os.close(descriptor)


def dump_checksummed_json(facts: Mapping[str, Any]) -> bytes:
    """Return facts as JSON with their checksum."""
    return _json({**facts, "checksum": hashlib.sha256(_json(facts)).hexdigest()})


def load_checksummed_json(path: Path) -> dict[str, Any]:
    """Read a file of at most `LARGEST` bytes that `dump_checksummed_json` made."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise CorruptFile(path, "it is too large")
        facts: dict[str, Any] = json.loads(content)
        del facts["checksum"]
        # the whole text is compared: JSON has several ways to write the same facts
        if content != dump_checksummed_json(facts):
            raise CorruptFile(path, "its checksum is wrong")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CorruptFile(path, "it is missing") from error
    except OSError as error:
        if error.errno in (errno.EIO, errno.EISDIR, errno.ENXIO, errno.ELOOP):
            raise CorruptFile(path, f"it cannot be read: {error.strerror}") from error
        raise InvalidFile(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptFile(path, "it is not the JSON that was written") from error
    return facts


@dataclass(frozen=True)
class Documents:
    """Named byte strings with checksums, in one table of a SQLite file."""

    path: Path

    def read(self, prefix: str) -> dict[str, bytes]:
        """Return the documents whose names begin with `prefix`, as of one moment."""
        query = (
            "SELECT CAST(name AS TEXT), CAST(content AS BLOB), sha256 FROM documents"
            " WHERE name GLOB ? ORDER BY name, part"
        )
        found, digests = dict[str, bytes](), dict[str, set[bytes]]()
        for name, content, digest in self._select(query, f"{prefix}*"):
            found[name] = found.get(name, b"") + (content or b"")
            digests.setdefault(name, set()).add(digest)
        for name, content in found.items():
            if digests[name] != {_digest(name, content)}:
                raise CorruptFile(self.path, f"{name} is not as it was written")
        return found

    def digests(self, prefix: str) -> list[tuple[str, bytes]]:
        """Return names and checksums, to detect changes."""
        query = "SELECT DISTINCT name, sha256 FROM documents WHERE name GLOB ? ORDER BY name"
        return list(self._select(query, f"{prefix}*"))

    def write(self, documents: Mapping[str, bytes | None]) -> None:
        """Replace these documents in one transaction; None removes one."""
        rows = [
            (name, part, content[start : start + _PART], _digest(name, content))
            for name, content in documents.items()
            if content is not None
            for part, start in enumerate(range(0, max(1, len(content)), _PART))
        ]
        make_writable(self.path.parent)
        with sqlite_file(self.path, "write", create=True, patience=PATIENCE) as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute(DOCUMENTS)
            db.executemany("DELETE FROM documents WHERE name = ?", ((name,) for name in documents))
            db.executemany("INSERT INTO documents VALUES(?, ?, ?, ?)", rows)
            db.execute("COMMIT")

    def problems(self) -> list[str]:
        """Return what is wrong with the documents and their table."""
        try:
            found = self._select("PRAGMA integrity_check(documents)")
            self.read("")
        except InvalidFile as error:
            return [error.problem]
        return [f"{self.path} is damaged: {text}" for (text,) in found if text != "ok"]

    def _select(self, query: str, *values: str) -> list[Any]:
        if not self.path.exists():
            return []
        with sqlite_file(self.path, "read", patience=PATIENCE) as db:
            made = db.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,)
            return db.execute(query, values).fetchall() if made else []


@contextmanager
def sqlite_file(
    path: Path, doing: str, *, create: bool = False, refusal: type[SurefindError] = InvalidFile, patience: float = 60.0
) -> Iterator[sqlite3.Connection]:
    """Open a connection; closing it rolls back what was not committed. `doing` is read or write."""
    try:
        with closing(connect(path, create=create, patience=patience)) as db:
            if doing == "write":
                db.execute(f"PRAGMA synchronous={SYNCHRONOUS}")
                db.execute("PRAGMA cache_spill=OFF")  # a spill would lock readers out early
            yield db
    except SQLITE_ERRORS as error:
        raise sqlite_error(error, path, doing, refusal) from error


def connect(path: Path, *, create: bool = False, patience: float = 60.0) -> sqlite3.Connection:
    """Open a connection that any thread may use, one at a time.

    SQLite opens a file for reading only where it may not be written. Do not open it by other
    means: closing a file drops all locks that the process has on it.
    """
    uri = f"file:{quote(str(path.absolute()))}?mode={'rwc' if create else 'rw'}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=patience, check_same_thread=False)


def sqlite_error(error: Exception, path: Path, doing: str, refusal: type[SurefindError]) -> SurefindError:
    """Return what to raise for one of `SQLITE_ERRORS`."""
    if isinstance(error, OSError):
        why = error.strerror or str(error)
        if doing == "read" and error.errno in (errno.ENOENT, errno.EIO, errno.EISDIR):
            return CorruptFile(Path(error.filename or path), why)
        return disk_error(path, doing, why, refusal)
    code = getattr(error, "sqlite_errorname", None) or "SQLITE_CORRUPT"
    if code.startswith(_CORRUPTION):
        return CorruptFile(path, str(error))
    if code.startswith("SQLITE_BUSY"):
        fix = "wait until it has finished, or end it; nothing was changed"
        return refusal(f"another process is writing to {path}", fix=fix)
    return disk_error(path, doing, str(error), refusal)


def disk_error(path: Path, doing: str, why: str, kind: type[SurefindError]) -> SurefindError:
    """Return an error for a disk that is full, read-only or broken."""
    state = "; it is as it was" if doing == "write" else ""
    fix = "free some space or make the folder writable, then do it again"
    return kind(f"cannot {doing} {path}: {why}{state}", fix=fix)


def _put(file: BinaryIO, content: bytes | memoryview) -> None:
    """Write bytes; tests let it fail."""
    file.write(content)


def _json(facts: Mapping[str, Any]) -> bytes:
    return (json.dumps(facts, sort_keys=True, allow_nan=False, indent=2) + "\n").encode()


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest()
