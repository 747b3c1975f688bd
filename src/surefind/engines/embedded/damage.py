"""What is wrong with a file of an index, said in the same way everywhere."""

import errno
from pathlib import Path

from surefind.errors import InvalidFile

RESTORE = "restore the folder from a copy, or make the index again"


class Damaged(InvalidFile):
    """A file that is not what was written."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} is damaged: {why}", fix=RESTORE)


class Missing(Damaged):
    """A file that is not there."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "it is missing")


def unreadable(path: Path, error: OSError) -> InvalidFile:
    """Damage, or a passing trouble of this process: no reason to fall back on an older version."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Missing(path)
    if error.errno in (errno.EIO, errno.EISDIR, errno.ENXIO, errno.ELOOP):
        return Damaged(path, f"it cannot be read: {error.strerror}")
    return InvalidFile(
        f"cannot read {path}: {error.strerror}", fix="make it readable, then open the index again"
    )
