"""What is wrong with a file of an index, said in the same way everywhere."""

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


def unreadable(path: Path, error: OSError) -> Damaged:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Missing(path)
    return Damaged(path, f"it cannot be read: {error.strerror}")
