"""Small JSON files and documents in SQLite, with checksums; damage to files."""

import errno
import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from surefind.errors import InvalidFile, SurefindError
from surefind.files import make_writable

LARGEST = 64 * 2**20  # bytes of a small file; nothing of that size is ever written
PATIENCE = 600.0  # seconds; while an index is compacted its file is locked
DOCUMENTS = (
    "CREATE TABLE IF NOT EXISTS documents(name TEXT, part INTEGER, content BLOB NOT NULL,"
    " sha256 BLOB NOT NULL, PRIMARY KEY(name, part)) WITHOUT ROWID"
)
SYNCHRONOUS = "EXTRA"  # the folder is flushed too when the journal is deleted, which is the commit
# Codes of SQLite's errors that mean a damaged file.
_DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_MISMATCH", "SQLITE_FORMAT")
_PART = 2**28  # bytes of a document in a row; SQLite has at most 10^9
_SEAL = "checksum"


class Damaged(InvalidFile):
    """A file that is not what was written."""

    def __init__(self, path: Path, why: str) -> None:
        fix = "restore the folder from a copy, or make the index again"
        super().__init__(f"{path} is damaged: {why}", fix=fix)


def seal(facts: Mapping[str, Any]) -> bytes:
    """Return the facts as JSON with their checksum."""
    return _written({**facts, _SEAL: _checksum(facts)})


def unseal(path: Path, content: bytes) -> dict[str, Any]:
    """Return what was sealed; `path` is named in errors."""
    try:
        facts = json.loads(content)
        sealed = facts.pop(_SEAL)
        # the whole text is compared: JSON has several ways to write the same facts
        if sealed == _checksum(facts) and content == _written({**facts, _SEAL: sealed}):
            return dict(facts)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damaged(path, "it is not the JSON that was written") from error
    raise Damaged(path, "its checksum is wrong")


def read_small(path: Path) -> bytes:
    """Read a file of at most `LARGEST` bytes."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Damaged(path, "it is missing") from error
    except OSError as error:
        if error.errno in (errno.EIO, errno.EISDIR, errno.ENXIO, errno.ELOOP):
            raise Damaged(path, f"it cannot be read: {error.strerror}") from error
        raise InvalidFile(
            f"cannot read {path}: {error.strerror}",
            fix="make it readable, then open the index again",
        ) from error
    if len(content) > LARGEST:
        raise Damaged(path, "it is too large")
    return content


class Documents:
    """Named bytes with checksums in a table of a SQLite file, which may have other tables."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, prefix: str) -> dict[str, bytes]:
        """Return the documents whose names begin so, as they are at one moment."""
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
                raise Damaged(self.path, f"{name} is not as it was written")
        return found

    def digests(self, prefix: str) -> list[tuple[str, bytes]]:
        """Return names and checksums, to see whether anything has changed."""
        query = "SELECT DISTINCT name, sha256 FROM documents WHERE name GLOB ? ORDER BY name"
        return list(self._select(query, f"{prefix}*"))

    def write(self, documents: Mapping[str, bytes | None]) -> None:
        """Replace all of these or, whatever stops it, none; None removes one."""
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
        """Read all of them again, and let SQLite check the table."""
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
    path: Path,
    doing: str,
    *,
    create: bool = False,
    refusal: type[SurefindError] = InvalidFile,
    patience: float = 60.0,
) -> Iterator[sqlite3.Connection]:
    """Connect for one use; closing rolls back what was not committed. `doing` is read or write.

    SQLite opens a file for reading only where it may not be written. Do not open it by other
    means: closing a file drops all locks that the process has on it.
    """
    uri = f"file:{quote(str(path.absolute()))}?mode={'rwc' if create else 'rw'}"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=patience)) as db:
            if doing == "write":
                db.execute(f"PRAGMA synchronous={SYNCHRONOUS}")
                db.execute("PRAGMA cache_spill=OFF")  # a spill would lock readers out early
            yield db
    except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite may quote a damaged text
        code = getattr(error, "sqlite_errorname", None) or "SQLITE_CORRUPT"
        if code.startswith(_DAMAGE):
            raise Damaged(path, str(error)) from error
        if code.startswith("SQLITE_BUSY"):
            raise refusal(
                f"another process is writing to {path}",
                fix="wait until it has finished, or end it; nothing was changed",
            ) from error
        raise refused(path, doing, str(error), refusal) from error
    except OSError as error:
        why = error.strerror or str(error)
        if doing == "read" and error.errno in (errno.ENOENT, errno.EIO, errno.EISDIR):
            raise Damaged(Path(error.filename or path), why) from error
        raise refused(path, doing, why, refusal) from error


def refused(path: Path, doing: str, why: str, kind: type[SurefindError]) -> SurefindError:
    """Describe a disk that is full, read-only or broken."""
    state = "; it is as it was" if doing == "write" else ""
    fix = "free some space or make the folder writable, then do it again"
    return kind(f"cannot {doing} {path}: {why}{state}", fix=fix)


def _written(facts: Mapping[str, Any]) -> bytes:
    return (json.dumps(facts, sort_keys=True, allow_nan=False) + "\n").encode()


def _checksum(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(_written(facts)).hexdigest()


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest()
