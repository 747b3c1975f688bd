"""surefind calibrate: from labelled queries to hits that say how sure they are."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.errors import InvalidArgument

if TYPE_CHECKING:
    from surefind.cli.calibration_request import Request
    from surefind.search.confidence.calibration import Calibration

NOT_KEPT = 3  # exit code: the precision cannot be promised, or the queries have changed


def calibrate(
    folder: Annotated[Path, typer.Argument(metavar="INDEX", help="A folder of surefind index.")],
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="Labelled queries: a folder, a CSV, NAME:FOLDER, or 'glyphs'; "
            "of an index of vectors, a file of them. Without any the images of the index are "
            "asked, each of the others.",
        ),
    ] = None,
    precision: Annotated[
        float, typer.Option(help="Of what is called a match, this share is to be right,")
    ] = 0.95,
    probability: Annotated[float, typer.Option(help="with this probability,")] = 0.9,
    ahead: Annotated[
        int | None, typer.Option(min=1, help="of so many queries to come; else in the long run.")
    ] = None,
    miss: Annotated[
        float, typer.Option(help="How often no match may be among the hits to look at.")
    ] = 0.1,
    foreign_rate: Annotated[
        float, typer.Option(help="Share of the queries that belong here to be called foreign.")
    ] = 0.01,
    part: Annotated[
        str, typer.Option(help="all of the data, train, val or test; best not trained on.")
    ] = "all",
    doubt: Annotated[
        bool, typer.Option("--doubt/--no-doubt", help="Also learn which images are vague.")
    ] = True,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the calibration: a PNG, SVG or PDF file.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Fit nothing: are DATA, which need no labels, like the calibration's?"
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    engine: Annotated[
        str | None, typer.Option(help="The engine's URL, where it needs a password or has moved.")
    ] = None,
) -> None:
    """Learn from labelled queries how sure a hit is; from then on every search says so.

    Exits with 3 when the precision cannot be promised: confidence is then shown, but nothing is
    called a match.

    Examples:
        surefind calibrate photos.index labelled/
        surefind calibrate photos.index labelled/ --precision 0.99 --plot fit.png
        surefind calibrate photos.index new-queries/ --check
    """
    from surefind.cli.calibration_request import Request
    from surefind.search.confidence.fitting import Wishes

    if check and plot is not None:
        raise InvalidArgument(
            "--check, --plot", expected="one of them", got="both", fix="leave one out"
        )
    wishes = Wishes(
        precision=precision,
        probability=probability,
        ahead=ahead,
        miss=miss,
        foreign_rate=foreign_rate,
    )
    request = Request(folder, data, part, wishes, learn_doubt=doubt, plot=plot, engine=engine)
    kept = _check(request, as_json=as_json) if check else _fit(request, as_json=as_json)
    if not kept:
        raise typer.Exit(NOT_KEPT)


def _fit(request: "Request", *, as_json: bool) -> bool:
    """Whether the precision can be promised."""
    from surefind.cli.calibration_report import print_calibration
    from surefind.cli.calibration_request import fit
    from surefind.cli.progress import stages

    with stages() as tell:
        calibration = fit(request, tell)
    if as_json:
        print(json.dumps(calibration.summary()))
    else:
        print_calibration(request.folder, calibration)
    if request.plot is not None:
        _draw(calibration, request.plot, quiet=as_json)
    return calibration.promise.threshold is not None


def _check(request: "Request", *, as_json: bool) -> bool:
    """Whether queries are like those of the calibration."""
    from surefind.cli.calibration_report import print_check
    from surefind.cli.calibration_request import compare_queries
    from surefind.cli.progress import stages

    with stages() as tell:
        checked = compare_queries(request, tell)
    if as_json:
        print(json.dumps({"index": str(request.folder)} | checked.as_dict()))
    else:
        print_check(checked)
    return not checked.shifts


def _draw(calibration: "Calibration", path: Path, *, quiet: bool) -> None:
    from surefind.reports.figures.confidence import draw_confidence
    from surefind.reports.figures.saving import save

    save(draw_confidence(calibration), path)
    if not quiet:
        print(f"drawn in {path}")
