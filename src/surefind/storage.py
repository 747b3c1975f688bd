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

from surefind.errors import InvalidFile
from surefind.files import ROOM, sync_folder

LARGEST = 64 * 2**20  # bytes of a small file; nothing of that size is ever written
PATIENCE = 600.0  # seconds; while an index is compacted its file is locked
DOCUMENTS = (
    "CREATE TABLE IF NOT EXISTS documents(name TEXT, part INTEGER, content BLOB NOT NULL,"
    " sha256 BLOB NOT NULL, PRIMARY KEY(name, part)) WITHOUT ROWID"
)
WAIT = "wait until it has finished, or end it; nothing was changed"
# Codes of SQLite's errors that mean a damaged file.
DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_MISMATCH", "SQLITE_FORMAT")
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
        with self._connected("write") as db:
            db.execute("PRAGMA synchronous=EXTRA")
            db.execute("PRAGMA cache_spill=OFF")  # a spill would lock readers out until the commit
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
        with self._connected("read") as db:
            made = db.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,)
            return db.execute(query, values).fetchall() if made else []

    @contextmanager
    def _connected(self, doing: str) -> Iterator[sqlite3.Connection]:
        """A connection for one use. Closing it rolls back what was not committed."""
        mode = "rwc" if doing == "write" else "rw"
        try:
            if doing == "write" and not self.path.parent.is_dir():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                sync_folder(self.path.parent.parent)
            uri = f"file:{quote(str(self.path.absolute()))}?mode={mode}"
            db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=PATIENCE)
            with closing(db):
                yield db
        except (sqlite3.Error, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT")
            if code.startswith(DAMAGE):
                raise Damaged(self.path, str(error)) from error
            if code.startswith("SQLITE_BUSY"):
                raise InvalidFile(f"another process is writing to {self.path}", fix=WAIT) from error
            raise InvalidFile(f"cannot {doing} {self.path}: {error}", fix=ROOM) from error
        except OSError as error:
            raise InvalidFile(f"cannot {doing} {self.path}: {error.strerror}", fix=ROOM) from error


def _written(facts: Mapping[str, Any]) -> bytes:
    return (json.dumps(facts, sort_keys=True, allow_nan=False) + "\n").encode()


def _checksum(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(_written(facts)).hexdigest()


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest()
