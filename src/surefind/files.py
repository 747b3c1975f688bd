"""Files written whole or not at all, and folders that can be written to."""

import os
from pathlib import Path
from tempfile import TemporaryFile

from surefind.errors import InvalidFile

ROOM = "choose a folder that exists, is writable and has free space"


def write_whole(path: Path, content: bytes | memoryview, *, fix: str = ROOM) -> None:
    """An older file of that name stays until the new one is on the disk."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise InvalidFile(f"cannot write {path}: {error.strerror}", fix=fix) from error


def make_writable(folder: Path) -> None:
    """Make a folder and try to write there: before the work, not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidFile(
            f"cannot write {folder}: {error.strerror}", fix="choose a writable folder"
        ) from error
