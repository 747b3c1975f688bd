"""All commands of surefind, as the command line knows them."""

import shlex
from typing import Any

from typer.main import get_command

from surefind.cli.commands import app
from surefind.cli.registering import Explanation, explained

ROOT: Any = get_command(app)


COMMANDS: dict[str, Any] = dict(ROOT.commands)


def explanation(command: Any) -> Explanation:
    return explained(command.callback.__doc__)


def options(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def parse(example: str) -> None:
    """Raises what is wrong with it."""
    first, *words = shlex.split(example)
    assert first == "surefind"
    name = next(name for name in COMMANDS if words[: len(name.split())] == name.split())
    COMMANDS[name].make_context(name, words[len(name.split()) :]).close()
