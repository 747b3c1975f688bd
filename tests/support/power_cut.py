"""What a disk may hold after the power went off: only what was synced is sure to be there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from surefind import files

Entries = dict[Path, int]  # names in folders, and the inodes that they stand for


class Disk:
    """Follows what a program does to the files under a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now: Entries = {}
        self.content: dict[int, bytes] = {}  # as written
        self.synced: dict[int, bytes] = {}  # as on the disk for sure
        for path in root.rglob("*"):
            if path.is_file():
                self.now[path] = number = len(self.content)
                self.content[number] = self.synced[number] = path.read_bytes()
        self.sure = dict(self.now)  # names that are on the disk for sure
        self.states: list[dict[Path, bytes]] = []

    def cut(self) -> None:
        """Remember every state that the disk may be in if the power goes off now.

        In each folder, changes of names since it was synced have all reached the disk, or none;
        of what a file holds, nothing that was not synced has.
        """
        folders = sorted({path.parent for path in (*self.now, *self.sure)})
        for choice in product([self.now, self.sure], repeat=len(folders)):
            state = {
                path.relative_to(self.root): self.synced.get(number, b"")
                for folder, entries in zip(folders, choice, strict=True)
                for path, number in entries.items()
                if path.parent == folder
            }
            if state not in self.states[-16:]:
                self.states.append(state)


@contextmanager
def recorded(root: Path) -> Iterator[Disk]:
    """A disk that notes all states in which a power cut could leave it."""
    disk = Disk(root)
    real_open, real_put = Path.open, files.put
    real_replace, real_unlink = Path.replace, Path.unlink

    def opened(path: Path, mode: str = "r", *more, **named):
        if "w" in mode or "x" in mode:
            disk.now[path] = number = len(disk.content)
            disk.content[number] = b""
            disk.cut()
        return real_open(path, mode, *more, **named)

    def put(file, content) -> None:
        real_put(file, content)
        disk.content[disk.now[Path(file.name)]] += bytes(content)

    def sync(descriptor: int) -> None:
        number = disk.now[Path(f"/proc/self/fd/{descriptor}").readlink()]
        disk.synced[number] = disk.content[number]
        disk.cut()

    def replace(path: Path, target: Path) -> Path:
        disk.now[target] = disk.now.pop(path)
        disk.cut()
        return real_replace(path, target)

    def unlink(path: Path, *, missing_ok: bool = False) -> None:
        disk.now.pop(path, None)
        disk.cut()
        real_unlink(path, missing_ok=missing_ok)

    def sync_folder(folder: Path) -> None:
        kept = {path: number for path, number in disk.sure.items() if path.parent != folder}
        new = {path: number for path, number in disk.now.items() if path.parent == folder}
        disk.sure = kept | new
        disk.cut()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", opened)
        patch.setattr(Path, "replace", replace)
        patch.setattr(Path, "unlink", unlink)
        patch.setattr(files, "put", put)
        patch.setattr(files, "sync_folder", sync_folder)
        patch.setattr(os, "fsync", sync)
        yield disk


def restored(state: dict[Path, bytes], root: Path) -> Path:
    """A folder in that state."""
    for name, content in state.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root
