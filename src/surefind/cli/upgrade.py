"""surefind upgrade: uncertainty and confidence for vectors that one already has."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

import surefind as sf
from surefind.cli.calibrate import NOT_KEPT, print_calibration
from surefind.cli.options import JsonOption, PrecisionOption


def upgrade(
    vectors: Annotated[
        Path,
        Argument(metavar="VECTORS", help="Labelled vectors: a .npz, .npy or .parquet file."),
    ],
    output: Annotated[Path, Option("--output", "-o", help="A folder for the upgrade.")],
    precision: PrecisionOption = 0.95,
    probability: Annotated[float, Option(help="with this probability.")] = 0.9,
    vectors_name: Annotated[
        str | None, Option("--vectors", help="Array or column of vectors.")
    ] = None,
    labels_name: Annotated[
        str | None, Option("--labels", help="Array or column of labels.")
    ] = None,
    variance: Annotated[
        bool,
        Option("--variance/--no-variance", help="Learn how vague each vector is."),
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Give vectors of any model a variance and a calibrated confidence; they stay as they are.

    Exits with 3 when the precision cannot be guaranteed. Then make an index of vectors with the
    upgrade as its model, and search it with vectors.

    Examples:
        surefind upgrade vectors.npz -o clip.upgrade
        surefind upgrade clip.parquet -o clip.upgrade --vectors vector --labels kind
        surefind index clip.upgrade gallery.npz -o clip.index
        surefind search clip.index asked.npz
    """
    from surefind.cli.output import stages
    from surefind.errors import InvalidFile
    from surefind.storage import make_writable
    from surefind.vectors.reader import read_vectors
    from surefind.vectors.upgrade import calibrate

    targets = sf.CalibrationTargets(precision=precision, probability=probability)
    given = read_vectors(vectors, vectors=vectors_name, labels=labels_name)
    if not given.labels:
        raise InvalidFile(
            f"{vectors} has no labels, so that nothing can be learned from it",
            fix="add an array of labels, one per vector, or name it: --labels NAME",
        )
    make_writable(output)
    with stages() as tell:
        made = calibrate(
            given.values, given.labels, targets=targets, learn_variance=variance, progress=tell
        )
    made.save(output)
    if as_json:
        print(json.dumps({"model": str(output), **made.calibration.summary()}))
    else:
        print_calibration(output, made.calibration)
    if made.calibration.guarantee.threshold is None:
        raise Exit(NOT_KEPT)
