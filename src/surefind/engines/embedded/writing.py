"""Files of an index on their way to the disk, with their checksums."""

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from surefind import files
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.manifest import Kept


class HashedFile:
    """Counts and hashes what is written to a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._hash = file, hashlib.sha256()
        self.size = 0

    def write(self, content: bytes | memoryview) -> int:
        view = memoryview(content)
        files.put(self._file, view)
        self._hash.update(view)
        self.size += view.nbytes
        return view.nbytes

    def write_all(self, blocks: Iterable[bytes | memoryview]) -> None:
        for block in blocks:
            self.write(block)

    def pad_to(self, offset: int) -> None:
        if offset > self.size:
            self.write(bytes(offset - self.size))

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def kept(self, name: str) -> Kept:
        return Kept(name=name, bytes=self.size, sha256=self.sha256)


@contextmanager
def hashed_file(path: Path) -> Iterator[HashedFile]:
    """A file to fill, on the disk under its name when the block ends."""
    with files.whole_file(path) as file:
        yield HashedFile(file)


def new_name(suffix: str) -> str:
    return f"{secrets.token_hex(16)}.{suffix}"


def write_file(path: Path, content: bytes) -> str:
    """A small file, whole; its checksum."""
    with hashed_file(path) as file:
        file.write(content)
    return file.sha256


def write_dead(folder: Folder, bitmap: bytes) -> Kept:
    name = new_name("dead")
    sha256 = write_file(folder.file(name), bitmap)
    return Kept(name=name, bytes=len(bitmap), sha256=sha256)
