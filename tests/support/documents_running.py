"""A document from its first block to its last, in a folder of its own."""

import json
import re
import socket
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import yaml
from documents_blocks import Block, blocks_of, name_of, ready_for
from documents_programs import all_programs
from documents_shell import Shell
from documents_surefind import InProcess, check, made_small
from documents_world import World

from surefind.search.index import Index
from surefind.serve.settings import Settings
from surefind.training.recipe import Recipe

WRITTEN = re.compile(r"(127\.0\.0\.1|localhost):8000")

IN_BACKGROUND = re.compile(r"(surefind serve\b.*?)&\s*$", flags=re.MULTILINE)


class Reader:
    """Does what a document says."""

    def __init__(self, shell: Shell, surefind: InProcess) -> None:
        self.shell, self.surefind = shell, surefind
        self.scope: dict[str, object] = {"__name__": "__main__"}

    def read(self, path: Path) -> None:
        for block in blocks_of(path):
            where = f"{name_of(path)}, line {block.line}"
            here = block._replace(text=self._at_the_real_port(block.text))
            try:
                self._do(here, path)
            except Exception as error:
                error.add_note(f"in the {block.language} block at {where}:\n{block.text}")
                raise

    def _do(self, block: Block, path: Path) -> None:
        match block.language:
            case "python":
                lines = "\n" * (block.line - 1)  # so that a traceback names the right ones
                exec(compile(lines + block.text, str(path), "exec"), self.scope)
            case "sh":
                # A service stays in the background anyway, and must be there for the next line.
                self.shell.run(IN_BACKGROUND.sub(r"\1", block.text))
            case "json":
                json.loads(block.text)
            case "yaml":
                list(yaml.safe_load_all(block.text))
            case "toml":
                _check_recipe(tomllib.loads(block.text))

    def _at_the_real_port(self, text: str) -> str:
        return WRITTEN.sub(rf"\1:{self.surefind.served.port}", text)


def _check_recipe(values: dict[str, object]) -> None:
    """If it has a table that only recipes have."""
    if set(values) & {field.name for field in fields(Recipe)}:
        Recipe.from_dict(values)


@contextmanager
def reader_of(path: Path, world: World, *, surefind: InProcess, place: Path) -> Iterator[Reader]:
    """With all that stands ready for a document, in the folder `place`/here."""
    ready = ready_for(path)
    folder = world.copy(place / "here", *sorted(ready - {"service"}))
    shell = Shell(place / "shell", folder=folder, programs=all_programs(surefind, check))
    surefind.monkeypatch.chdir(folder)
    try:
        with made_small(world):
            if "service" in ready:
                surefind.served.start(Index.open(world.index), Settings(reload_seconds=0))
            yield Reader(shell, surefind)
    finally:
        surefind.served.now.close()
        shell.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
