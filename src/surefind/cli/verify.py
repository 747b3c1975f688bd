"""surefind verify: is an index still what was written?"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from surefind.errors import SurefindError
    from surefind.search.index import Index


def verify(
    folder: Annotated[Path, typer.Argument(metavar="INDEX", help="A folder of surefind index.")],
    repair: Annotated[
        bool, typer.Option("--repair", help="Build what can be built again: graph, lookups.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    engine: Annotated[
        str | None, typer.Option(help="The engine's URL, where it needs a password or has moved.")
    ] = None,
) -> None:
    """Read all of an index and check it; exit with 1 if anything is wrong.

    Examples:
        surefind verify photos.index
        surefind verify photos.index --repair
    """
    from surefind.engines.opening import is_url
    from surefind.search.folder import IndexFolder
    from surefind.search.index import Index
    from surefind.search.printable import printable

    repaired: str | None = None
    with Index.open(folder, engine=engine) as index:
        problems = index.verify()
        if problems and repair:
            repaired = index.repair()
            problems = index.verify()
        calibration = _wrong_calibration(index)
        images, on_server = len(index), is_url(IndexFolder(folder).read())
    if as_json:
        findings = {"images": images, "problems": problems, "repaired": repaired}
        print(json.dumps({"index": str(folder)} | findings))
    else:
        if repaired is not None:
            print(f"repaired: {printable(repaired)}")
        if not problems:
            print(f"{images:,} images, everything as it was written")
        for problem in problems:
            print(printable(problem))
        if calibration is not None and problems == [calibration.problem]:
            print(f"  fix: {calibration.fix}")
        elif problems:
            print(f"  fix: {_remedy(folder, repair=repair, on_server=on_server)}")
    if problems:
        raise typer.Exit(1)


def _wrong_calibration(index: "Index") -> "SurefindError | None":
    """What is wrong with it, which no repair of the rows mends."""
    from surefind.errors import SurefindError

    try:
        index.calibration  # noqa: B018
    except SurefindError as error:
        return error
    return None


def _remedy(folder: Path, *, repair: bool, on_server: bool) -> str:
    if on_server:
        return "restore the server's data from a backup, or make the index again"
    if repair:
        return "restore the folder from a copy, or make the index again"
    return f"surefind verify {folder} --repair builds graph and lookups again"
