"""The help of every command as text, for the documentation."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from typing import Any

COLUMNS = "80"


def command_pages() -> dict[str, str]:
    """What `surefind ... --help` prints, by the words before --help, the whole first."""
    from typer.main import get_command

    from surefind.cli.commands import app

    with _fixed_width():
        return _pages(get_command(app), "surefind")


def _pages(command: Any, name: str) -> dict[str, str]:
    context = command.make_context(name, [], resilient_parsing=True)
    with redirect_stdout(StringIO()) as printed:
        help_text = command.get_help(context)
    lines = _without_colour(printed.getvalue() or help_text).splitlines()
    pages = {name: "\n".join(line.rstrip() for line in lines).strip("\n")}
    for inner, sub in getattr(command, "commands", {}).items():
        pages |= _pages(sub, f"{name} {inner}")
    return pages


def _without_colour(text: str) -> str:
    """Where the environment asks for colour, as that of some CI does, there is some."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@contextmanager
def _fixed_width() -> Iterator[None]:
    """The same page wherever it is made."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = COLUMNS
    try:
        yield
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
