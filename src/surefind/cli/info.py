"""surefind info and surefind verify: what is in an index, and is it still what was written?"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.cli.options import EngineOption, IndexArgument, JsonOption

if TYPE_CHECKING:
    from surefind.search.confidence.calibration import Calibration


def info(folder: IndexArgument, as_json: JsonOption = False, engine: EngineOption = None) -> None:
    """Tell how many images an index has, which model made them, and what its calibration promises.

    Examples:
        surefind info photos.index
        surefind info photos.index --json
    """
    from surefind.search.index import Index
    from surefind.search.printable import printable
    from surefind.search.sentences import gallery_change

    with Index.open(folder, engine=engine) as index:
        facts, calibration = index.describe(), index.calibration
    if calibration is not None and (change := gallery_change(calibration, facts["images"])):
        facts["warnings"].append(change)
    if as_json:
        print(json.dumps(facts, default=str))
        return
    warnings = facts.pop("warnings")
    facts["images"], facts["bytes"] = f"{facts['images']:,}", _size(facts["bytes"])
    if calibration is None:
        facts["calibration"] = f"not calibrated: surefind calibrate {folder} DATA"
    else:
        facts |= _sentences(calibration)
        warnings += calibration.origin.remarks
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:{width}s}  {printable(str(value))}")
    for warning in warnings:
        print(f"warning: {printable(warning)}")


def _sentences(calibration: "Calibration") -> dict[str, str]:
    """In place of the numbers of a calibration, what it says."""
    from surefind.search import sentences

    copies = sentences.copies_left_out(calibration)
    return {
        "calibration": sentences.made_with(calibration),
        **({} if copies is None else {"copies": copies}),
        "quality": sentences.found_quality(calibration.quality),
        "promise": sentences.promised(calibration.promise),
        "showing": sentences.shown(calibration.showing),
        "foreign": sentences.foreign_rule(calibration),
    }


def _size(count: float) -> str:
    """In the largest unit that leaves a whole number in front."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def verify(
    folder: IndexArgument,
    repair: Annotated[
        bool, typer.Option("--repair", help="Build what can be built again: graph, lookups.")
    ] = False,
    as_json: JsonOption = False,
    engine: EngineOption = None,
) -> None:
    """Read all of an index and check it; exit with 1 if anything is wrong.

    Examples:
        surefind verify photos.index
        surefind verify photos.index --repair
    """
    from surefind.errors import SurefindError
    from surefind.search.index import Index
    from surefind.search.printable import printable

    repaired = wrong_calibration = None
    with Index.open(folder, engine=engine) as index:
        problems = index.verify()
        if problems and repair:
            repaired = index.repair()
            problems = index.verify()
        try:
            index.calibration  # noqa: B018
        except SurefindError as error:  # which no repair of the rows mends
            wrong_calibration = error
        images = len(index)
    if as_json:
        findings = {"images": images, "problems": problems, "repaired": repaired}
        print(json.dumps({"index": str(folder)} | findings))
    else:
        if repaired is not None:
            print(f"repaired: {printable(repaired)}")
        for problem in problems or [f"{images:,} images, everything as it was written"]:
            print(printable(problem))
        if wrong_calibration is not None and problems == [wrong_calibration.problem]:
            print(f"  fix: {wrong_calibration.fix}")
        elif problems:
            print(f"  fix: {_remedy(folder, repaired=repair)}")
    if problems:
        raise typer.Exit(1)


def _remedy(folder: Path, *, repaired: bool) -> str:
    from surefind.engines.opening import is_url
    from surefind.search.folder import IndexFolder

    if is_url(IndexFolder(folder).read()):
        return "restore the server's data from a backup, or make the index again"
    if repaired:
        return "restore the folder from a copy, or make the index again"
    return f"surefind verify {folder} --repair builds graph and lookups again"
