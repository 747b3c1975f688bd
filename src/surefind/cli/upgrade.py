"""surefind upgrade: uncertainty and confidence for vectors of any model."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

import surefind as sf
from surefind.cli.calibrate import NO_GUARANTEE, print_calibration
from surefind.cli.options import JsonOption, PrecisionOption, ProbabilityOption, VarianceOption, labelled_vectors
from surefind.cli.output import stages


def upgrade(
    vectors: Annotated[Path, Argument(metavar="VECTORS", help="Labelled vectors: a .npz, .npy or .parquet file.")],
    output: Annotated[Path, Option("--output", "-o", help="Folder for the upgrade.")],
    precision: PrecisionOption = 0.95,
    probability: ProbabilityOption = 0.9,
    vectors_name: Annotated[str | None, Option("--vectors", help="Array or column of vectors.")] = None,
    labels_name: Annotated[str | None, Option("--labels", help="Array or column of labels.")] = None,
    variance: VarianceOption = True,
    as_json: JsonOption = False,
) -> None:
    """Add uncertainty and calibrated confidence to the vectors of any model, unchanged.

    Exit code 3 if the data cannot support the guarantee. Then build an index of vectors with the
    upgrade as its model, and search it with vectors.

    Examples:
        surefind upgrade vectors.npz -o clip.upgrade
        surefind upgrade clip.parquet -o clip.upgrade --vectors vector --labels kind
        surefind index gallery.npz -o clip.index --model clip.upgrade
        surefind search clip.index queries.npz
    """
    from surefind.storage import make_writable

    targets = sf.CalibrationTargets(precision=precision, probability=probability)
    given = labelled_vectors(vectors, vectors=vectors_name, labels=labels_name)
    make_writable(output)
    with stages() as progress:
        made = sf.calibrate(given.values, given.labels, targets=targets, learn_variance=variance, progress=progress)
    made.save(output)
    if as_json:
        print(json.dumps({"model": str(output), **made.calibration.summary()}))
    else:
        print_calibration(output, made.calibration)
    if made.calibration.guarantee.threshold is None:
        raise Exit(NO_GUARANTEE)
