"""surefind doctor: what this machine can do, and what is missing."""

import json
from typing import Annotated

from typer import Exit, Option

from surefind.cli.options import JsonOption

MARKS = {  # and their colours
    "fine": ("ok", "green"),
    "absent": ("--", "dim"),
    "poor": ("!!", "yellow"),
    "broken": ("FAIL", "bold red"),
}


def doctor(
    engine: Annotated[
        list[str] | None,
        Option(help="A server to try: pgvector://... or milvus://... Repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Look at packages, machine, disk, engines and extras; tell what is missing, and the remedy.

    Exits with 1 if something that is needed, or a server that was named, does not work.

    Examples:
        surefind doctor
        surefind doctor --engine pgvector://me@localhost/photos
        surefind doctor --json
    """
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from surefind.cli.output import NARROWEST, can_show
    from surefind.doctor import Finding, examine
    from surefind.text import printable

    groups = examine(engine or ())
    console = Console(highlight=False)
    needs = f"a terminal of {NARROWEST} columns, true colour (COLORTERM=truecolor) and Unicode"
    groups["machine"].append(
        Finding("terminal", "fine", "shows small pictures beside hits")
        if can_show(console)
        else Finding("terminal", "absent", f"no small pictures beside hits: they need {needs}")
    )
    findings = [finding for found in groups.values() for finding in found]
    broken = [finding.what for finding in findings if finding.state == "broken"]
    if as_json:
        written = {name: [each._asdict() for each in found] for name, found in groups.items()}
        print(json.dumps({"fine": not broken} | written))
    else:
        width = max(len(finding.what) for finding in findings)  # aligned over all groups
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
        fine = "everything that is needed works"
        print(f"does not work: {', '.join(broken)}" if broken else fine)
    if broken:
        raise Exit(1)
