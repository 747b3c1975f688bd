"""Every Python block of the documents runs, and what they link to is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


WITH_A_SERVER = "serving.md"  # its blocks are run by tests/serve/test_examples.py


@pytest.mark.parametrize(
    "path",
    [path for path in DOCUMENTS if path.name != WITH_A_SERVER],
    ids=lambda path: path.name,
)
def test_python_blocks_run_in_order(path: Path, capsys):
    scope: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL):
        exec(compile(block, str(path), "exec"), scope)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_to_files_lead_somewhere(path: Path):
    for target in re.findall(r"\]\(([^)#]+)", path.read_text()):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target


def test_the_readme_shows_the_two_commands_of_the_makefile():
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    for command in ("demo", "test"):
        assert f"make {command}" in readme
        assert f"\n{command}: setup" in makefile
