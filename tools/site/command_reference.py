"""A hook of MkDocs: every command with its options and examples, from the command line itself."""

import re
from collections.abc import Iterator
from typing import Any

import typer

COMMANDS, EXIT_CODES = "<!-- commands -->", "<!-- exit codes -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Instead of the comments."""
    for place, written in ((COMMANDS, command_reference), (EXIT_CODES, exit_codes)):
        if place in markdown:
            markdown = markdown.replace(place, written())
    return markdown


def exit_codes() -> str:
    from surefind.cli.errors import EXIT_CODES as CODES

    rows = [f"| {code} | {what} |" for code, what in CODES.items()]
    return "\n".join(["| exit code | what |", "|---|---|", *rows])


def command_reference() -> str:
    from surefind.cli.commands import app

    root = typer.main.get_command(app)
    panels: dict[str, list[Any]] = {}
    for command in root.commands.values():
        panels.setdefault(command.rich_help_panel or "Others", []).append(command)
    lines = ["| for | commands |", "|---|---|"]
    for panel, commands in panels.items():
        links = ", ".join(f"[{command.name}](#surefind-{command.name})" for command in commands)
        lines.append(f"| **{panel}** | {links} |")
    lines.append("")
    for commands in panels.values():
        for command in commands:
            lines += _command(command, f"surefind {command.name}", level=2)
    return "\n".join(lines)


def _command(command: Any, name: str, *, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name} {{ #{name.replace(' ', '-')} }}\n"
    yield _plain(command.help) + "\n"
    if hasattr(command, "commands"):
        for inner in command.commands.values():
            yield from _command(inner, f"{name} {inner.name}", level=level + 1)
        return
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [parameter for parameter in shown if parameter.param_type_name == "argument"]
    usage = " ".join([name, *(_argument(parameter) for parameter in arguments), "[OPTIONS]"])
    yield f"```text\n{usage}\n```\n"
    yield from _table("argument", [(f"`{_argument(p)}`", p) for p in arguments])
    options = [parameter for parameter in shown if parameter.param_type_name == "option"]
    yield from _table("option", [(_option(p), p) for p in options])
    examples = [line for line in (command.epilog or "").splitlines() if line.startswith("surefind")]
    if examples:
        yield "```sh\n" + "\n".join(_plain(line) for line in examples) + "\n```\n"


def _table(what: str, rows: list[tuple[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    yield f"| {what} | what | default |\n|---|---|---|"
    for shown, parameter in rows:
        told = _plain(parameter.help or "").replace("|", r"\|").replace("\n", " ")
        yield f"| {shown} | {told} | {_default(parameter)} |"
    yield ""


def _argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    name += "..." if parameter.nargs == -1 else ""
    return name if parameter.required else f"[{name}]"


def _option(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    return ", ".join(f"`{name}`" for name in names)


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    if value is None or value == "" or value == () or value == []:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"`{value}`"


def _plain(text: str | None) -> str:
    """Without the backslashes that keep rich from reading brackets as colours."""
    return re.sub(r"\\\[", "[", text or "").strip()
