"""surefind info: what is in an index?"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from surefind.search.confidence.calibration import Calibration


def info(
    folder: Annotated[Path, typer.Argument(metavar="INDEX", help="A folder of surefind index.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
    engine: Annotated[
        str | None, typer.Option(help="The engine's URL, where it needs a password or has moved.")
    ] = None,
) -> None:
    """Tell how many images an index has, which model made them, and what its calibration promises.

    Examples:
        surefind info photos.index
        surefind info photos.index --json
    """
    from surefind.search.index import Index
    from surefind.search.printable import printable

    with Index.open(folder, engine=engine) as index:
        facts, calibration = index.describe(), index.calibration
    change = _change(calibration, facts["images"])
    if change is not None:
        facts["warnings"].append(change)
    if as_json:
        print(json.dumps(facts, default=str))
        return
    warnings = facts.pop("warnings")
    facts |= _calibration(calibration, folder)
    if calibration is not None:
        warnings += calibration.origin.remarks
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:{width}s}  {printable(_written(name, value))}")
    for warning in warnings:
        print(f"warning: {printable(warning)}")


def _change(calibration: "Calibration | None", images: int) -> str | None:
    from surefind.search.sentences import gallery_change

    return None if calibration is None else gallery_change(calibration, images)


def _calibration(calibration: "Calibration | None", folder: Path) -> dict[str, str]:
    """In place of its numbers, what it says."""
    from surefind.search.sentences import (
        copies_left_out,
        foreign_rule,
        found_quality,
        made_with,
        promised,
        shown,
    )

    if calibration is None:
        return {"calibration": f"not calibrated: surefind calibrate {folder} DATA"}
    copies = copies_left_out(calibration)
    return {
        "calibration": made_with(calibration),
        **({} if copies is None else {"copies": copies}),
        "quality": found_quality(calibration.quality),
        "promise": promised(calibration.promise),
        "showing": shown(calibration.showing),
        "foreign": foreign_rule(calibration),
    }


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
