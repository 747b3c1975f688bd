"""Markdown documents as the tests see them: fenced blocks, and what is to stand ready."""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LANGUAGES = ("python", "sh", "json", "toml", "yaml", "text")
READY = ("model", "index", "report", "service")
_FENCE = re.compile(r" *(`{3,}|~{3,})(.*)")


class Block(NamedTuple):
    """A fenced block, and the line its content starts at."""

    language: str
    text: str
    line: int


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def blocks_of(path: Path) -> list[Block]:
    """In order; a fence without a language that the tests know is an error."""
    blocks: list[Block] = []
    opened: tuple[str, str, int] | None = None
    lines: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.fullmatch(line)
        if opened is None:
            if fence:
                language = fence[2].strip().split(" ")[0]
                assert language in LANGUAGES, (
                    f"{name_of(path)}, line {number}: a fence must say what it holds: "
                    f"```{', ```'.join(LANGUAGES)}; got {line.strip()!r}"
                )
                opened, lines = (fence[1], language, number + 1), []
        elif fence and fence[1].startswith(opened[0]) and not fence[2].strip():
            blocks.append(Block(opened[1], textwrap.dedent("\n".join(lines)) + "\n", opened[2]))
            opened = None
        else:
            lines.append(line)
    assert opened is None, f"{name_of(path)}: the fence before line {opened[2]} is never closed"
    return blocks


def ready_for(path: Path) -> set[str]:
    """What `<!-- ready: model index -->` asks for."""
    asked = re.findall(r"<!-- ready: (.*?) -->", path.read_text(encoding="utf-8"))
    words = {word for line in asked for word in line.split()}
    assert words <= set(READY), f"{name_of(path)}: ready can be {READY}, got {words - set(READY)}"
    return words
