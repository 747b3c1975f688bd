"""What every command has, so that none needs to ask for it: --quiet, --debug, help, completion."""

import inspect
import re
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, NamedTuple

import typer

from surefind.cli.failing import Ended
from surefind.cli.options import COMPLETIONS
from surefind.cli.voice import speak

Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no remarks: the result, and errors.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Errors with all their details, and a log.")]


Command = Callable[..., None]


class Explanation(NamedTuple):
    """The docstring of a command: what it does, and examples of it."""

    text: str
    examples: tuple[str, ...]


def register(
    app: typer.Typer,
    command: Command,
    *,
    panel: str | None = None,
) -> None:
    """Add a command to an app. Its docstring ends with "Example: surefind ..." or several."""
    explanation = explained(command.__doc__ or "")
    for name, hint in command.__annotations__.items():
        for parameter in getattr(hint, "__metadata__", ()):
            parameter.autocompletion = parameter.autocompletion or COMPLETIONS.get(name)
    app.command(
        help=_escaped(explanation.text),
        epilog=_escaped(listed_examples(explanation)),
        rich_help_panel=panel,
    )(with_common_options(command))


def with_common_options(command: Command) -> Command:
    """The same command with --quiet and --debug; Ctrl-C in it is told like any other end."""
    own = inspect.signature(command, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    common = [
        inspect.Parameter("quiet", keyword, default=False, annotation=Quiet),
        inspect.Parameter("debug", keyword, default=False, annotation=Debug),
    ]

    @wraps(command)
    def run(*given: Any, quiet: bool = False, debug: bool = False, **named: Any) -> None:
        speak(quiet=quiet, debug=debug)
        try:
            command(*given, **named)
        except (KeyboardInterrupt, BrokenPipeError, EOFError) as end:
            raise Ended from end

    signature = own.replace(parameters=[*own.parameters.values(), *common])
    run.__signature__ = signature  # type: ignore[attr-defined]  # where inspect looks
    return run


def explained(docstring: str) -> Explanation:
    r"""A docstring without the line breaks of its source, and the examples at its end.

    >>> explained("Look around.\n\nAt all\nof it. Example: surefind look here")
    Explanation(text='Look around.\n\nAt all of it.', examples=('surefind look here',))
    """
    text, *rest = re.split(r"\bExamples?:\s", inspect.cleandoc(docstring), maxsplit=1)
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    examples = re.split(r"\n(?=\s*surefind )", rest[0]) if rest else []
    return Explanation(
        "\n\n".join(paragraph for paragraph in paragraphs if paragraph),
        tuple(" ".join(example.split()) for example in examples),
    )


def listed_examples(explanation: Explanation) -> str:
    return "\n".join(["Examples:", *explanation.examples])


def _escaped(text: str) -> str:
    """Brackets as they are written: rich takes some for colours."""
    return re.sub(r"\[(?=[a-z#/@])", r"\\[", text)
