"""One writer at a time, by a lock of the operating system that ends with its process."""

import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from surefind.engines.embedded.folder import Folder
from surefind.engines.engine import EngineError

PATIENCE = 60.0  # seconds that a writer waits for another
_PAUSE = 0.01


@contextmanager
def writer_lock(folder: Folder) -> Iterator[None]:
    """Held while the block runs; readers do not ask for it. OSError if it cannot be written."""
    deadline = time.monotonic() + PATIENCE
    while True:
        descriptor = os.open(folder.lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if _taken(descriptor) and _is_the_file(descriptor, folder):
                yield
                return
        finally:
            os.close(descriptor)
        if time.monotonic() > deadline:
            raise EngineError(
                f"another process is writing to {folder.path}",
                fix="wait until it has finished, or end it; nothing was changed",
            )
        time.sleep(_PAUSE * (0.5 + random.random()))  # noqa: S311


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_the_file(descriptor: int, folder: Folder) -> bool:
    """A lock on a file that was deleted meanwhile keeps nobody out."""
    try:
        return os.path.samestat(os.fstat(descriptor), folder.lock.stat())
    except FileNotFoundError:
        return False
