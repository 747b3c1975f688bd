"""What an earlier run has finished, and whether it is what is wanted now."""

import json
from pathlib import Path
from typing import Any

from surefind.encoders.saving import read_config
from surefind.errors import InvalidFile
from surefind.files import make_writable
from surefind.reports.evaluate import OWN_FOREIGN, Request
from surefind.reports.reproduce.plan import Plan
from surefind.reports.result import EvalResult
from surefind.training.recipe import Recipe

PLAN, RESULTS = "reproduce.json", "results.json"
UNNAMED = ("", OWN_FOREIGN)  # foreign data that nobody asked for by name


def claim(plan: Plan) -> None:
    """Make the output folder this table's own; a folder of another table is refused.

    Models at the scale "cpu" are called the same for every data set.
    """
    path = plan.output / PLAN
    now = {"table": plan.name, "data": plan.data}
    make_writable(plan.output)
    try:
        if not path.is_file():
            path.write_text(json.dumps(now) + "\n")
        then = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidFile(f"cannot use {path}: {error}", fix="choose another folder") from error
    for key, value in now.items():
        if then.get(key) != value:
            raise InvalidFile(
                f"{plan.output} was made with {key} {then.get(key)}, not {value}",
                fix=f"use the same {key}, or another output folder",
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
