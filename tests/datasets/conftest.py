"""Small trees in the published layouts; a file's content does not matter to a reader."""

from collections.abc import Callable
from pathlib import Path

import pytest

WriteTree = Callable[..., Path]


@pytest.fixture
def write_tree(tmp_path: Path) -> WriteTree:
    """Writes empty files below a new folder."""

    def write(*paths: str, folder: str = "data") -> Path:
        root = tmp_path / folder
        root.mkdir(exist_ok=True)
        for path in paths:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()
        return root

    return write


@pytest.fixture
def write_table(write_tree: WriteTree) -> Callable[[str], Path]:
    """Writes a CSV and an empty file for each path in its first column."""

    def write(text: str, name: str = "list.csv") -> Path:
        lines = [line.strip() for line in text.strip().splitlines()]
        paths = [line.split(",")[0] for line in lines[1:]]
        inside = [path for path in paths if path and not path.startswith(("/", ".."))]
        root = write_tree(*inside)
        (root / name).write_text("\n".join(lines) + "\n")
        return root / name

    return write
