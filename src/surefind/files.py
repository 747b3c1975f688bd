"""Files written whole or not at all, and folders that can be written to."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import fsync
from pathlib import Path
from secrets import randbits
from tempfile import TemporaryFile
from typing import BinaryIO

from surefind.errors import InvalidFile

ROOM = "choose a folder that exists, is writable and has free space"


def write_whole(path: Path, content: bytes | memoryview, *, fix: str = ROOM) -> None:
    """An older file of that name stays until the new one is on the disk."""
    try:
        with whole_file(path) as file:
            put(file, content)
    except OSError as error:
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


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to fill, which takes its name when the block ends, or is gone if that fails."""
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


def put(file: BinaryIO, content: bytes | memoryview) -> None:
    """Where all bytes pass that must reach the disk; tests let it fail."""
    file.write(content)


def sync_folder(folder: Path) -> None:
    """A new name in a folder survives a power cut only when the folder itself is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network disks cannot; their renames are durable
            raise
    finally:
        os.close(descriptor)
