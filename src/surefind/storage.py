"""Small JSON files with a checksum, the lock of a folder's writer, and damage to files."""

import errno
import fcntl
import hashlib
import json
import os
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from surefind.errors import InvalidFile, SurefindError

LARGEST = 64 * 2**20  # bytes of a small file; nothing of that size is ever written
PATIENCE = 60.0  # seconds that a writer waits for another
_PAUSE = 0.01
_SEAL = "checksum"


class Damaged(InvalidFile):
    """A file that is not what was written."""

    def __init__(self, path: Path, why: str) -> None:
        fix = "restore the folder from a copy, or make the index again"
        super().__init__(f"{path} is damaged: {why}", fix=fix)


class Missing(Damaged):
    """A file that is not there."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "it is missing")


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
        raise Missing(path) from error
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


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which ends with the process; OSError if it cannot be written."""
    path, deadline = folder / "lock", time.monotonic() + PATIENCE
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if _locked(descriptor, path):
                yield
                return
        finally:
            os.close(descriptor)
        if time.monotonic() > deadline:
            raise SurefindError(
                f"another process is writing to {folder}",
                fix="wait until it has finished, or end it; nothing was changed",
            )
        time.sleep(_PAUSE * (0.5 + random.random()))  # noqa: S311


def _locked(descriptor: int, path: Path) -> bool:
    """A lock on a file that was deleted meanwhile keeps nobody out."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _written(facts: Mapping[str, Any]) -> bytes:
    return (json.dumps(facts, sort_keys=True, allow_nan=False) + "\n").encode()


def _checksum(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(_written(facts)).hexdigest()
