"""All commands of surefind, as the command line knows them."""

from collections.abc import Sequence
from typing import Any

import typer
from typer.main import get_command

from surefind.cli.commands import app
from surefind.cli.registering import Explanation, explained

ROOT: Any = get_command(app)


COMMANDS: dict[str, Any] = dict(ROOT.commands)


def explanation(command: Any) -> Explanation:
    return explained(command.callback.__doc__)


def options(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


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
