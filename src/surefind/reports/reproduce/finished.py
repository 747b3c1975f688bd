"""What an earlier run has finished, and whether it is what is wanted now."""

import json
from pathlib import Path
from typing import Any

from surefind.encoders.saving import read_config
from surefind.errors import InvalidFile
from surefind.files import make_writable, write_whole
from surefind.reports.evaluate import OWN_FOREIGN, Request
from surefind.reports.reproduce.plan import Plan
from surefind.reports.result import FORMAT, EvalResult
from surefind.training.recipe import Recipe

PLAN, RESULTS = "reproduce.json", "results.json"
UNNAMED = ("", OWN_FOREIGN)  # foreign data that nobody asked for by name


def claim(plan: Plan) -> None:
    """Make the folder of models that of one training table; a folder of another is refused.

    Models are called the same for every data set.
    """
    make_writable(plan.results_folder)
    folder, now = plan.models_folder, {"table": plan.training_table, "data": plan.trained_on}
    if plan.trained_on is not None and not (folder / PLAN).is_file():
        make_writable(folder)
        write_whole(folder / PLAN, (json.dumps(now) + "\n").encode())
    then = _claimed(folder)
    for key, value in now.items():
        if key in then and value is not None and then[key] != value:
            raise InvalidFile(
                f"{folder} was made with {key} {then[key]}, not {value}",
                fix=f"use the same {key}, or another folder",
            )


def claimed_data(folder: Path) -> str | None:
    """The data that the models in a folder are trained on; None where it does not say."""
    return _claimed(folder).get("data")


def _claimed(folder: Path) -> dict[str, str]:
    path = folder / PLAN
    try:
        found = json.loads(path.read_text()) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise InvalidFile(f"cannot use {path}: {error}", fix="choose another folder") from error
    return found if isinstance(found, dict) else {}


def check_models(plan: Plan) -> None:
    """Refuse, before any work, a plan that needs models or data which are not there."""
    if plan.models is not None and not plan.models.is_dir():
        raise InvalidFile(
            f"{plan.models}: no such folder",
            fix=f"name the output folder of surefind reproduce {plan.training_dataset}",
        )
    if plan.trained_on is not None:
        return
    for row in plan.rows:
        for seed in range(plan.seeds_of(row)):
            if not is_trained(folder := plan.model(row, seed)):
                data = plan.training_dataset
                raise InvalidFile(
                    f"where is {data}? This table's models are trained on it, and {folder} is not "
                    "there",
                    fix=f"name the data, --train-data FOLDER, or the output folder of surefind "
                    f"reproduce {data}, --models FOLDER",
                )


def is_trained(folder: Path) -> bool:
    """Whether training came to its end: the list of rejected images is the last it writes."""
    return (folder / "run" / "rejected.csv").is_file()


def check_same_recipe(folder: Path, wanted: Recipe) -> None:
    """Refuse a model that was made with another recipe."""
    path = folder / "run" / "recipe.toml"
    if not path.is_file():
        raise InvalidFile(f"{folder} does not say how it was made", fix=f"move {folder} away")
    then, now = _flat(Recipe.read(path)), _flat(wanted)
    for key, value in now.items():
        if then[key] != value:
            raise InvalidFile(
                f"{folder} was trained with {key} = {then[key]!r}, not {value!r}",
                fix=f"use --set {key}={then[key]}, another output folder, or move {folder} away",
            )


def finished_evaluation(request: Request, folder: Path) -> EvalResult | None:
    """The results in a folder, if they are of this model and this data."""
    try:
        result = EvalResult.read(folder / RESULTS)
    except InvalidFile:  # none yet, or of an older format
        return None
    if result.format != FORMAT:  # measured in another way; embeddings are kept
        return None
    about = result.about
    foreign = request.foreign or (about.foreign if about.foreign in UNNAMED else None)
    found = (about.fingerprint, about.data, about.foreign, about.part)
    wanted = (read_config(request.model).fingerprint, request.data, foreign, request.part)
    return result if found == wanted else None


def _flat(recipe: Recipe) -> dict[str, Any]:
    tables = recipe.as_dict()
    seed = tables.pop("seed")
    keys = {f"{table}.{key}": value for table in tables for key, value in tables[table].items()}
    return {"seed": seed, **keys}
