"""Every code block of every document runs, in order, as a reader would run it."""

from pathlib import Path

import pytest
from documents_blocks import DOCUMENTS, ROOT, blocks_of, name_of


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_the_blocks_of_a_document_run_in_order(path: Path, read):
    if blocks_of(path):
        read(path)


def test_the_readme_shows_the_two_commands_of_the_makefile():
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    for command in ("demo", "test"):
        assert f"make {command}" in readme
        assert f"\n{command}: setup" in makefile
