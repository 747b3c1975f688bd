"""surefind info and surefind verify: facts and integrity of an index."""

import json
from shlex import quote
from typing import Annotated

from typer import Exit, Option

import surefind as sf
from surefind.cli.options import EngineOption, IndexArgument, JsonOption


def info(folder: IndexArgument, as_json: JsonOption = False, engine: EngineOption = None) -> None:
    """Show the size, the model, the calibration and the guarantees of an index.

    Examples:
        surefind info photos.index
        surefind info photos.index --json
    """
    from rich import filesize

    from surefind.confidence import explain
    from surefind.text import printable

    with sf.Index.open(folder, engine=engine) as index:
        facts, calibration = index.describe(), index.calibration
    if calibration is not None:
        change = explain.gallery_change(calibration, facts["images"], folder=str(folder))
        facts["warnings"] += [change] if change else []
    if as_json:
        print(json.dumps(facts, default=str))
        return
    warnings = facts.pop("warnings")
    facts["images"], facts["bytes"] = f"{facts['images']:,}", filesize.decimal(facts["bytes"])
    facts["calibration"] = f"not calibrated: surefind calibrate {quote(str(folder))} DATA"
    if calibration is not None:
        warnings += calibration.origin.remarks
        facts["calibration"] = explain.made_with(calibration)
        if copies := explain.copies_left_out(calibration):
            facts["copies"] = copies
        facts["quality"] = explain.found_quality(calibration.quality)
        facts["guarantee"] = explain.guaranteed(calibration.guarantee)
        facts["prediction_set"] = explain.shown(calibration)
        facts["no_match"] = explain.no_match_rule(calibration)
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:{width}s}  {printable(str(value))}")
    for warning in warnings:
        print(f"warning: {printable(warning)}")


def verify(
    folder: IndexArgument,
    repair: Annotated[bool, Option("--repair", help="Rebuild graph and lookup tables.")] = False,
    as_json: JsonOption = False,
    engine: EngineOption = None,
) -> None:
    """Read the whole index and check it for corruption. Exit code 1 if a problem remains.

    Examples:
        surefind verify photos.index
        surefind verify photos.index --repair
    """
    from surefind.text import printable

    repaired = fix = None
    with sf.Index.open(folder, engine=engine) as index:
        problems, images = index.verify(), len(index)
        if problems and repair:
            repaired = index.repair()
            problems = index.verify()
        if problems and not as_json:
            fix = _remedy(index, problems, repaired=repair)
    if as_json:
        print(json.dumps({"index": str(folder), "images": images, "problems": problems, "repaired": repaired}))
    else:
        if repaired is not None:
            print(f"repaired: {printable(repaired)}")
        for problem in problems or [f"{images:,} images, no corruption found"]:
            print(printable(problem))
        if fix is not None:
            print(f"  fix: {fix}")
    if problems:
        raise Exit(1)


def _remedy(index: "sf.Index", problems: list[str], *, repaired: bool) -> str | None:
    from surefind.engines.registry import is_url
    from surefind.search.folder import IndexFolder

    try:
        index.calibration  # noqa: B018
    except sf.SurefindError as error:  # not repaired with the rows
        if problems == [error.problem]:
            return error.fix
    if repaired or is_url(IndexFolder(index.folder).read()):
        return "restore it from a backup, or make the index again"
    return f"surefind verify {quote(str(index.folder))} --repair"
