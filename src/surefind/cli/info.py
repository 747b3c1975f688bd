"""surefind info: what is in an index?"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def info(
    folder: Annotated[Path, typer.Argument(metavar="INDEX", help="A folder of surefind index.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
    engine: Annotated[
        str | None, typer.Option(help="The engine's URL, where it needs a password or has moved.")
    ] = None,
) -> None:
    """Tell how many images an index has, which model made them and how they are kept.

    Example: surefind info photos.index
    """
    from surefind.search.index import Index
    from surefind.search.printable import printable

    with Index.open(folder, engine=engine) as index:
        facts = index.describe()
    if as_json:
        print(json.dumps(facts, default=str))
        return
    warnings = facts.pop("warnings", [])
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:{width}s}  {printable(_written(name, value))}")
    for warning in warnings:
        print(f"warning: {printable(warning)}")


def _written(name: str, value: Any) -> str:
    if name == "bytes":
        return _size(value)
    return f"{value:,}" if name == "images" else str(value)


def _size(count: float) -> str:
    """In the largest unit that leaves a whole number in front."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
