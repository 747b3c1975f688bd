"""Files of an index, opened together, each read and compared with its checksum before its use."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path

from surefind.engines.embedded.damage import Damaged, unreadable
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.manifest import Kept
from surefind.errors import InvalidFile


class CheckedFiles:
    """All are open before any is read: from then on a writer's cleaning cannot disturb."""

    def __init__(self, folder: Folder, stack: ExitStack, kept: Iterable[Kept]) -> None:
        self._folder, self._stack = folder, stack
        self._files = {file.name: self._open(file) for file in kept}

    def path(self, kept: Kept) -> Path:
        return self._folder.file(kept.name)

    def get(self, kept: Kept) -> BufferedReader:
        """The file from its start, if its size and its checksum are right."""
        path, file = self.path(kept), self._files[kept.name]
        if isinstance(file, InvalidFile):
            raise file
        try:
            size = file.seek(0, 2)
            if size != kept.bytes:  # first: hashing what has grown endlessly takes as long
                raise Damaged(path, f"it has {size} bytes instead of {kept.bytes}")
            file.seek(
                0
            )  # read, not mapped: of a disk that cannot read this is an error, not a crash
            if hashlib.file_digest(file, "sha256").hexdigest() != kept.sha256:
                raise Damaged(path, "its checksum is wrong")
            file.seek(0)
        except OSError as error:
            raise unreadable(path, error) from error
        return file

    def _open(self, kept: Kept) -> BufferedReader | InvalidFile:
        try:
            return self._stack.enter_context(self.path(kept).open("rb"))
        except OSError as error:
            return unreadable(self.path(kept), error)


@contextmanager
def checked_files(folder: Folder, kept: Iterable[Kept]) -> Iterator[CheckedFiles]:
    with ExitStack() as stack:
        yield CheckedFiles(folder, stack, kept)
