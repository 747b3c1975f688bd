"""Where the files of an index lie, and which files are an index's own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OWN_FILE = r"[0-9a-f]{32}\.(segment|dead|hnsw|ivf)"
_OWN_VERSION = r"\d{6,18}\.json"


@dataclass(frozen=True)
class Folder:
    """The folder of one index."""

    path: Path

    @property
    def store(self) -> Path:
        """What the index is; written last when it is made, never changed."""
        return self.path / "store.json"

    @property
    def current(self) -> Path:
        """Which version is the newest."""
        return self.path / "CURRENT"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def versions(self) -> Path:
        return self.path / "versions"

    @property
    def segments(self) -> Path:
        return self.path / "segments"

    def manifest(self, version: int) -> Path:
        return self.versions / f"{version:06}.json"

    def file(self, name: str) -> Path:
        return self.segments / name

    def version_numbers(self) -> list[int]:
        """Of all manifests there, newest first."""
        names = [path.name for path in _listed(self.versions)]
        return sorted((int(n[:-5]) for n in names if re.fullmatch(_OWN_VERSION, n)), reverse=True)

    def files(self) -> Iterator[Path]:
        """All that the index has written, leftovers of a killed writer too; nothing of others."""
        for folder, own in (
            (self.versions, _OWN_VERSION),  # first, so that no version outlives its segments
            (self.segments, OWN_FILE),
            (self.path, r"store\.json|CURRENT"),
        ):
            mine = re.compile(rf"{own}|\.({own})\.\d+\.part")
            yield from (path for path in _listed(folder) if mine.fullmatch(path.name))


def is_leftover(path: Path) -> bool:
    return path.suffix == ".part"


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
