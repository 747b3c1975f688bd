"""All commands of surefind, as the command line knows them."""

from collections.abc import Sequence
from typing import Any

import typer
from typer.main import get_command
from typer.testing import CliRunner

from surefind.cli.commands import app
from surefind.cli.options import explained

ROOT: Any = get_command(app)
COMMANDS: dict[str, Any] = dict(ROOT.commands)


def examples_of(command: Any) -> list[str]:
    return explained(command.callback.__doc__)[1]


def options(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def help_of(*words: str) -> str:
    """What `surefind ... --help` prints."""
    return CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).output


def parse(words: Sequence[str]) -> dict[str, Any]:
    """Values of the parameters of `surefind ...`; raises what is wrong with it."""
    first, name, *rest = words
    assert first == "surefind"
    if name.startswith("--"):
        assert name in options(ROOT), name
        return {}
    try:
        with COMMANDS[name].make_context(name, list(rest)) as context:
            params: dict[str, Any] = context.params
            return params
    except typer.Exit:  # --help
        return {}
