"""surefind calibrate: from labelled queries to hits that say how sure they are."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

import surefind as sf
from surefind.cli.options import (
    EngineOption,
    IndexArgument,
    JsonOption,
    PrecisionOption,
    Split,
    split_of,
)

if TYPE_CHECKING:
    from surefind.confidence.calibration import Calibration
    from surefind.images.catalog import Catalog

NOT_KEPT = 3  # exit code: the precision cannot be guaranteed, or the queries have changed
LISTED = 5  # ways in which queries have changed


def calibrate(
    folder: IndexArgument,
    data: Annotated[
        str | None,
        Argument(
            metavar="DATA",
            help="Labelled queries: a folder, a CSV, NAME:FOLDER, or 'glyphs'; "
            "of an index of vectors, a file of them. Without any the images of the index are "
            "asked, each of the others.",
        ),
    ] = None,
    precision: PrecisionOption = 0.95,
    probability: Annotated[float, Option(help="with this probability,")] = 0.9,
    ahead: Annotated[
        int | None, Option(min=1, help="of so many queries to come; else in the long run.")
    ] = None,
    miss: Annotated[float, Option(help="How often the hits to look at may hold no match.")] = 0.1,
    novelty_level: Annotated[float, Option(help="Share of genuine queries called foreign.")] = 0.01,
    split: Annotated[Split, Option(help="Which split of the data; best not trained on.")] = "all",
    log_var: Annotated[
        bool, Option("--variance/--no-variance", help="Learn a variance per image.")
    ] = True,
    plot: Annotated[Path | None, Option(help="Draw the calibration as PNG, SVG or PDF.")] = None,
    check: Annotated[
        bool,
        Option(
            "--check", help="Fit nothing: are DATA, which need no labels, like the calibration's?"
        ),
    ] = False,
    as_json: JsonOption = False,
    engine: EngineOption = None,
) -> None:
    """Learn from labelled queries how sure a hit is; from then on every search says so.

    Exits with 3 when the precision cannot be guaranteed: confidence is then shown, but nothing is
    called a match.

    Examples:
        surefind calibrate photos.index labelled/
        surefind calibrate photos.index labelled/ --precision 0.99 --plot fit.png
        surefind calibrate photos.index new-queries/ --check
    """
    from surefind.cli.output import stages
    from surefind.storage import make_writable

    if check and plot is not None:
        raise sf.InvalidArgument("--check, --plot", expected="one of them", got="both")
    if data is None and (check or split != "all"):
        raise sf.InvalidArgument("DATA", expected="queries after INDEX", got="none")
    targets = sf.CalibrationTargets(
        precision=precision,
        probability=probability,
        horizon=ahead,
        miss_rate=miss,
        novelty_level=novelty_level,
    )
    if plot is not None:  # before the work, not after it
        from surefind.reports.figures.curves import draw_confidence
        from surefind.reports.figures.style import check_ending, save

        check_ending(plot)
        make_writable(plot.parent)
    if check and data is not None:
        _check(folder, data, split, engine, as_json=as_json)
        return
    labelled, labels = _labelled(folder, data, split)
    with stages() as tell, sf.Index.open(folder, engine=engine) as index:
        calibration = index.calibrate(
            labelled, labels=labels, targets=targets, learn_variance=log_var, progress=tell
        )
    if as_json:
        print(json.dumps(calibration.summary()))
    else:
        print_calibration(folder, calibration)
    if plot is not None:
        save(draw_confidence(calibration), plot)
        if not as_json:
            print(f"drawn in {plot}")
    if calibration.guarantee.threshold is None:
        raise Exit(NOT_KEPT)


def _labelled(
    folder: Path, data: str | None, split: Split
) -> "tuple[Catalog | sf.Embeddings | str | None, Sequence[str] | None]":
    """Return queries and, for vectors, their labels."""
    from surefind.vectors.reader import read_vectors

    if data is not None and (upgrade := sf.Upgrade.of_index(folder)) is not None:
        given = read_vectors(data)
        return upgrade.embed(given.values), given.labels
    if data is None or split == "all":
        return data, None  # a name is written down
    return split_of(data, split), None


def _check(folder: Path, data: str, split: Split, engine: str | None, *, as_json: bool) -> None:
    """Compare queries, which need no labels, with those of the calibration."""
    from dataclasses import asdict

    import numpy as np

    from surefind.cli.output import rejected_as_json, stages
    from surefind.images.loader import Rejection
    from surefind.text import printable
    from surefind.vectors.reader import read_vectors

    rejected: Sequence[Rejection] = ()
    asking: sf.Embeddings
    with stages() as tell, sf.Index.open(folder, engine=engine) as index:
        if index.calibration is None:
            raise sf.SurefindError(
                f"{folder} is not calibrated",
                fix=f"surefind calibrate {folder} DATA, with labelled queries",
            )
        created = index.calibration.origin.created
        if (upgrade := sf.Upgrade.of_index(folder)) is not None:
            asking = upgrade.embed(read_vectors(data).values)
        else:
            catalog = split_of(data, split)
            if any(catalog.queries):
                catalog = catalog.select(np.flatnonzero(catalog.queries))
            files = catalog.files
            asking, _, rejected = index.encoder.encode_all(
                files, progress=lambda done: tell("encoding", done, len(files))
            )
        drifts = index.drift(asking)
    if as_json:
        facts = {
            "index": str(folder),
            "queries": len(asking),
            "drifts": [asdict(drift) for drift in drifts],
            "rejected": rejected_as_json(rejected),
            "calibrated": created,
        }
        print(json.dumps(facts))
    else:
        for bad in rejected:
            print(printable(f"{bad.path}: {bad.reason}"), file=sys.stderr)
        are = (
            "are unlike those of the calibration:"
            if drifts
            else "look like those of the calibration"
        )
        print(f"these {len(asking):,} queries {are}")
        for drift in drifts[:LISTED]:
            print(f"  {printable(drift.message)}")
        if len(drifts) > LISTED:
            print(f"  and {len(drifts) - LISTED} more, less so (all with --json)")
        if drifts:
            print("the guarantee may not hold for them: calibrate with some of them")
    if drifts:
        raise Exit(NOT_KEPT)


def print_calibration(folder: Path, calibration: "Calibration") -> None:
    """Print facts first, then what follows from them; what weakens it goes to stderr."""
    from rich.console import Console

    from surefind.cli.output import remark
    from surefind.cli.rendering import plain_table
    from surefind.confidence import explain
    from surefind.text import printable

    quality, origin = calibration.quality, calibration.origin
    made = f"{folder}, {origin.gallery:,} images: calibrated {explain.made_with(calibration)}"
    print(printable(made))
    if copies := explain.copies_left_out(calibration):
        print(copies)
    print(f"{explain.measured(quality.right)} of their first hits are right\n")
    table = plain_table("is the first hit a match?", "confidence", "nearest distance", "d₁/d₂₀")
    for name, *values in (
        ("AUROC of a wrong first hit", quality.auroc, quality.baseline_auroc, quality.ratio_auroc),
        ("ECE, lower is better", quality.ece, quality.baseline_ece, None),
        ("  of a perfect model", quality.floor, quality.baseline_floor, None),
        ("Brier, lower is better", quality.brier, quality.baseline_brier, None),
    ):
        table.add_row(name, *(explain.digits(value) for value in values))
    Console().print(table)
    print("each query judged by a fit to other classes, both calibrated in the same way;")
    print("AUROC: mean within the folds; ECE: debiased, and what a perfect model would show\n")
    print(explain.guaranteed(calibration.guarantee))
    print(explain.shown(calibration.prediction_set))
    print(explain.no_match_rule(calibration))
    for weakness in origin.remarks:
        remark(f"warning: {weakness}")
