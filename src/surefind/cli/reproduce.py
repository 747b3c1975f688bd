"""surefind reproduce: the paper's tables beside our results."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from surefind.cli.options import JsonOption, OodOption, SetOption
from surefind.cli.output import note

if TYPE_CHECKING:
    from surefind.training.run_folder import StepInfo


def reproduce(
    dataset: Annotated[str, Argument(help="cub200, cars196, msls, or glyphs.")],
    output: Annotated[Path, Option("--output", "-o", help="Folder for models, results and table.")],
    data: Annotated[str | None, Option(help="A folder or DATASET:FOLDER. Default: in $SUREFIND_DATA.")] = None,
    train_data: Annotated[str | None, Option(help="For cars196: CUB-200. Default: in $SUREFIND_DATA.")] = None,
    backbone: Annotated[str, Option(help="resnet50 or densenet161.")] = "resnet50",
    scale: Annotated[str, Option(help="paper, or cpu (small backbone, +cpu recipes).")] = "paper",
    seeds: Annotated[int, Option(help="Number of trainings per row.")] = 1,
    rows: Annotated[str | None, Option(help="Only these rows: triplet,bayes-gauss")] = None,
    ood: OodOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train and evaluate every row of the paper's table; run it again to continue.

    The paper tests the models of cub200 on cars196 (table 2). With the same output folder, both
    tables share the models; the second table is written to the subfolder cars196.

    Examples:
        surefind reproduce glyphs -o out --rows triplet,bayes-centred
        surefind reproduce cub200 -o out --data data/CUB_200_2011 --scale cpu
        surefind reproduce cars196 -o out --data cars196 --train-data CUB_200_2011
    """
    from surefind.cli.errors import GracefulStop, StopRequest
    from surefind.reports import reproduce as tables
    from surefind.storage import write_whole
    from surefind.validation import check_choice

    check_choice("dataset", dataset, tables.DATASETS)
    if (other := tables.TRAINED_ON.get(dataset)) and train_data is None:
        train_data = tables.claimed(output / tables.PLAN).get("data")
    plan = tables.Plan(
        dataset,
        tables.find_source(dataset, data),
        output,
        train_data=tables.look_for(other, train_data) if other else train_data,
        backbone=backbone,
        scale=scale,
        seeds=seeds,
        rows=tables.choose_rows(rows),
        settings=tuple(settings or ()),
        foreign=ood,
        command=shlex.join(["surefind", *sys.argv[1:]]),
    )
    try:
        results = tables.reproduce(plan, say=note, on_step=_note_validation, should_stop=StopRequest())
    except tables.Interrupted as stopped:
        raise GracefulStop(stopped.problem, fix=stopped.fix) from stopped
    comparison = tables.compare(plan, results)
    text, facts = tables.to_markdown(comparison), comparison.as_dict()
    write_whole(plan.results_folder / "table.md", text.encode())
    write_whole(plan.results_folder / "table.json", (json.dumps(facts, indent=1) + "\n").encode())
    if as_json:
        print(json.dumps(facts))
    else:
        print(text, end="")


def _note_validation(info: "StepInfo") -> None:
    if info.recall == info.recall:
        note(f"    step {info.step}: R@1 on validation classes {info.recall:.3f}")
