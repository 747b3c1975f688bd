"""Markdown documents and their fenced blocks."""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LANGUAGES = ("python", "sh", "json", "toml", "yaml", "text")
FENCED = re.compile(r"^( *)(`{3,})(.*)\n((?:.*\n)*?)\1\2 *$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block, and the line its content starts at."""

    language: str
    text: str
    line: int


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks_of(path: Path) -> list[Block]:
    """In order; a fence without a language that the tests know is an error."""
    text = path.read_text(encoding="utf-8")
    found = [
        Block(block[3].strip().split(" ")[0], textwrap.dedent(block[4]), text.count("\n", 0, block.start(4)) + 1)
        for block in FENCED.finditer(text)
    ]
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(found), "an open fence"
    for block in found:
        assert block.language in LANGUAGES, f"line {block.line - 1}: a fence of no known language"
    return found
