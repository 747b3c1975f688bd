"""surefind doctor: what this machine can do, and what is missing."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from surefind.doctor.examining import Groups
    from surefind.doctor.finding import Finding

MARKS = {  # and their colours
    "fine": ("ok", "green"),
    "absent": ("--", "dim"),
    "poor": ("!!", "yellow"),
    "broken": ("FAIL", "bold red"),
}


def doctor(
    engine: Annotated[
        list[str] | None,
        typer.Option(help="A server to try: pgvector://... or milvus://... Repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look at packages, machine, disk, engines and extras; tell what is missing, and the remedy.

    Exits with 1 if something that is needed, or a server that was named, does not work.

    Examples:
        surefind doctor
        surefind doctor --engine pgvector://me@localhost/photos
        surefind doctor --json
    """
    from surefind.doctor.examining import examine, is_broken

    groups = examine(engine or ())
    groups["machine"].append(_terminal())
    if as_json:
        written = {name: [each.as_dict() for each in found] for name, found in groups.items()}
        print(json.dumps({"fine": not is_broken(groups)} | written))
    else:
        _print(groups)
    if is_broken(groups):
        raise typer.Exit(1)


def _print(groups: "Groups") -> None:
    """Aligned over all groups, a remedy in a line of its own."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from surefind.search.printable import printable

    console = Console(highlight=False)
    width = max(len(each.what) for found in groups.values() for each in found)
    for name, found in groups.items():
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=4)
        table.add_column(width=width)
        table.add_column(overflow="fold")
        for each in found:
            seen = Text(printable(each.seen))
            if each.fix:
                seen.append(f"\nfix: {printable(each.fix)}", style="italic")
            table.add_row(Text(*MARKS[each.state]), Text(each.what), seen)
        console.print(Text(name, style="bold"))
        console.print(Padding(table, (0, 0, 1, 2), expand=False))
    bad = [each.what for found in groups.values() for each in found if each.state == "broken"]
    print(f"does not work: {', '.join(bad)}" if bad else "everything that is needed works")


def _terminal() -> "Finding":
    """Whether a search would show small pictures here."""
    from rich.console import Console

    from surefind.cli.preview import NARROWEST, can_show
    from surefind.doctor.finding import Finding, fine

    console = Console()
    if can_show(console):
        return fine("terminal", "shows small pictures beside hits")
    needs = f"a terminal of {NARROWEST} columns, true colour (COLORTERM=truecolor) and Unicode"
    return Finding("terminal", "absent", f"no small pictures beside hits: they need {needs}")
