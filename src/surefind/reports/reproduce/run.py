"""Train and evaluate every row of a table; what is finished is not done again."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from surefind.datasets import open_dataset
from surefind.encoders.serialization import read_config
from surefind.errors import InvalidFile, SurefindError
from surefind.reports.evaluate import OWN_FOREIGN, Request
from surefind.reports.report import evaluate_into
from surefind.reports.reproduce.plan import PaperRow, Plan
from surefind.reports.result import FORMAT, EvalResult
from surefind.storage import make_writable, write_whole
from surefind.training.monitor import TrainingStopped
from surefind.training.recipe import Recipe
from surefind.training.run_folder import RunFolder, StepInfo
from surefind.training.trainer import train as train_model

PLAN = "reproduce.json"


class RowResult(NamedTuple):
    """What was found for one row."""

    row: PaperRow
    recipe: str
    results: tuple[EvalResult, ...]  # one for each seed
    zero_shot: tuple[tuple[EvalResult, ...], ...] = ()  # for each seed, one for each data


class Reporter(NamedTuple):
    """Callbacks: what is done, the steps of a training, whether to stop."""

    say: Callable[[str], None] = lambda _: None
    on_step: Callable[[StepInfo], None] = lambda _: None
    should_stop: Callable[[], bool] = lambda: False


class Interrupted(SurefindError):
    """Somebody asked to stop; everything is saved."""

    def __init__(self, where: str) -> None:
        super().__init__(f"stopped at {where}; everything is saved", fix="run it again to go on")


def reproduce(
    plan: Plan,
    *,
    evaluate: Callable[..., EvalResult] = evaluate_into,
    train: Callable[..., object] = train_model,
    reporter: Reporter | None = None,
) -> list[RowResult]:
    """Return every row of the plan with the results of its seeds.

    A model that was trained to its end with the same recipe is reused, an unfinished one is
    resumed; results of the same model and data are reused. Data to train on is needed only where
    a model is not trained yet.
    """
    reporter, open_once = reporter or Reporter(), cache(open_dataset)
    recipes = {
        (row, seed): plan.recipe(row, seed) for row in plan.rows for seed in plan.seeds_of(row)
    }
    check_models(plan)
    claim(plan)

    def go_on(where: str) -> None:
        if reporter.should_stop():
            raise Interrupted(where)

    def train_row(folder: Path, recipe: Recipe, where: str) -> None:
        if folder.is_dir() and is_trained(folder, recipe):
            reporter.say(f"{where}: model is there")
            return
        resume = RunFolder(folder).state_path.is_file()
        go_on(where)
        data = plan.trained_on
        assert data is not None  # check_models
        reporter.say(f"{where}: training on {data}" + (", resumed" if resume else ""))
        try:
            train(
                open_once(data, val_share=recipe.data.val_share),
                recipe,
                folder,
                resume=resume,
                on_step=reporter.on_step,
                should_stop=reporter.should_stop,
            )
        except TrainingStopped:
            go_on(where)
            raise

    def evaluated(request: Request, folder: Path, kept_in: Path, where: str) -> EvalResult:
        result = finished_evaluation(request, folder)
        if result is not None:
            reporter.say(f"{where}: results on {request.data} are there")
            return result
        go_on(where)
        reporter.say(f"{where}: evaluating on {request.data}")
        return evaluate(request, output=folder, kept_in=kept_in)

    found = []
    for number, row in enumerate(plan.rows, start=1):
        of_seeds = []
        for seed in plan.seeds_of(row):
            where = f"[{number}/{len(plan.rows)}] {row.title}, seed {seed}"
            train_row(plan.model(row, seed), recipes[row, seed], where)
            kept_in = plan.evaluation(row, seed) / "embeddings"
            requests = plan.requests(row, seed)
            of_seeds.append([evaluated(*request, kept_in, where) for request in requests])
        results = tuple(first for first, *_ in of_seeds)
        others = tuple(tuple(others) for _, *others in of_seeds)
        found.append(RowResult(row, plan.recipe_name(row), results, others))
    return found


def claim(plan: Plan) -> None:
    """Make the folder of models that of one training table; a folder of another is refused.

    Models are called the same for every data set.
    """
    make_writable(plan.results_folder)
    table = replace(plan, dataset=plan.training_dataset, train_data=None).name
    folder, now = plan.models_folder, {"table": table, "data": plan.trained_on}
    if plan.trained_on is not None and not (folder / PLAN).is_file():
        make_writable(folder)
        write_whole(folder / PLAN, (json.dumps(now) + "\n").encode())
    then = claimed(folder)
    for key, value in now.items():
        if key in then and value is not None and then[key] != value:
            raise InvalidFile(
                f"{folder} was made with {key} {then[key]}, not {value}",
                fix=f"use the same {key}, or another folder",
            )


def claimed(folder: Path) -> dict[str, str]:
    """Return the table and the data that the models in a folder are for; empty if not known."""
    path = folder / PLAN
    try:
        found = json.loads(path.read_text()) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise InvalidFile(f"cannot use {path}: {error}", fix="choose another folder") from error
    return found if isinstance(found, dict) else {}


def check_models(plan: Plan) -> None:
    """Refuse, before any work, a plan that needs models or data which are not there."""
    data = plan.training_dataset
    if plan.models is not None and not plan.models.is_dir():
        raise InvalidFile(
            f"{plan.models}: no such folder",
            fix=f"name the output folder of surefind reproduce {data}",
        )
    if plan.trained_on is not None:
        return
    for folder in [plan.model(row, seed) for row in plan.rows for seed in plan.seeds_of(row)]:
        if not _has_ended(folder):
            raise InvalidFile(
                f"where is {data}? This table's models are trained on it, and {folder} is not "
                "there",
                fix=f"name the data, --train-data FOLDER, or the output folder of surefind "
                f"reproduce {data}, --models FOLDER",
            )


def is_trained(folder: Path, recipe: Recipe) -> bool:
    """Return whether a model was trained to its end; remove a folder without a saved state.

    Raises:
        InvalidFile: it was trained with another recipe.
    """
    path = folder / "run" / "recipe.toml"
    if not path.is_file():
        raise InvalidFile(f"{folder} does not say how it was made", fix=f"move {folder} away")
    then = _flat(Recipe.read(path))
    for key, value in _flat(recipe).items():
        if then[key] != value:
            raise InvalidFile(
                f"{folder} was trained with {key} = {then[key]!r}, not {value!r}",
                fix=f"use --set {key}={then[key]}, another output folder, or move {folder} away",
            )
    if _has_ended(folder):
        return True
    if not RunFolder(folder).state_path.is_file():
        shutil.rmtree(folder)
    return False


def _has_ended(folder: Path) -> bool:
    return (folder / "run" / "rejected.csv").is_file()  # the last that training writes


def _flat(recipe: Recipe) -> dict[str, Any]:
    tables = recipe.as_dict()
    seed = tables.pop("seed")
    keys = {f"{table}.{key}": value for table in tables for key, value in tables[table].items()}
    return {"seed": seed, **keys}


def finished_evaluation(request: Request, folder: Path) -> EvalResult | None:
    """Return the results in a folder, if they are of this model and this data."""
    try:
        result = EvalResult.read(folder / "results.json")
    except InvalidFile:  # none yet, or of an older format
        return None
    about = result.about
    unnamed = about.foreign if about.foreign in ("", OWN_FOREIGN) else None
    found = (result.format, about.fingerprint, about.data, about.foreign, about.split)
    fingerprint = read_config(request.model).fingerprint
    wanted = (FORMAT, fingerprint, request.data, request.foreign or unnamed, request.split)
    return result if found == wanted else None
