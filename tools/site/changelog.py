"""A hook of MkDocs: the changelog of the repository as a page."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def on_files(files: Any, *, config: Any, **_: Any) -> Any:
    """Add it beside the documents."""
    text = CHANGELOG.read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "changelog.md", content=text))
    return files
