"""surefind attach: search vectors where another program keeps them."""

import json
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

import surefind as sf
from surefind.cli.options import JsonOption, PrecisionOption
from surefind.cli.output import stages


def attach(
    url: Annotated[
        str, Argument(metavar="URL", help="pgvector://USER@HOST/DATABASE/TABLE, or milvus://HOST:PORT/COLLECTION.")
    ],
    output: Annotated[Path, Option("--output", "-o", help="A new index.")],
    vector: Annotated[str, Option(help="Column of vectors.")],
    id_name: Annotated[str, Option("--id", help="Column of ids.")] = "id",
    label: Annotated[str | None, Option(help="Column of labels.")] = None,
    metric: Annotated[Literal["l2", "cosine", "ip"], Option(help="Distance that the vectors are made for.")] = "l2",
    calibrate: Annotated[bool, Option(help="Calibrate it with the labels.")] = True,
    precision: PrecisionOption = 0.95,
    as_json: JsonOption = False,
) -> None:
    """Search vectors in a table, view or collection that another program filled.

    Nothing is copied, and nothing is written there; calibrations are kept in the index. Other
    columns can be filtered by.

    Examples:
        surefind attach pgvector://me@host/db/items --vector clip -o items.index
        surefind attach milvus://host/items --vector clip --label kind -o items.index
    """
    targets = sf.CalibrationTargets(precision=precision)
    with sf.Index.attach(output, url, vector=vector, id=id_name, label=label, metric=metric) as index:
        made = None
        if calibrate and label:
            with stages() as progress:
                made = index.calibrate_itself(targets=targets, progress=progress)
        facts = {"index": str(output), "images": len(index), "calibrated": made is not None}
    if as_json:
        print(json.dumps(facts))
    else:
        known = "calibrated with their labels" if made else "not calibrated"
        print(f"{output}: {facts['images']} vectors, {known}")
