"""Reproduce a table of the paper: its rows, and their training and evaluation.

Finished work is not done again.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from surefind.datasets import open_dataset
from surefind.datasets.registry import READERS
from surefind.encoders.serialization import read_config
from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.reports.evaluate import OWN_FOREIGN, Request
from surefind.reports.report import evaluate_into
from surefind.reports.result import FORMAT, EvalResult
from surefind.storage import make_writable, write_whole
from surefind.training.monitor import TrainingStopped
from surefind.training.recipe import Recipe
from surefind.training.run_folder import RunFolder, StepInfo
from surefind.training.trainer import train as train_model
from surefind.validation import check_choice, check_whole

TITLES = {"cub200": "CUB-200-2011", "cars196": "Cars-196", "msls": "MSLS"}
BACKBONES = {"resnet50": "ResNet-50", "densenet161": "DenseNet-161"}
TRAINED_ON = {"cars196": "cub200"}  # table 2 tests the models of table 1; others test their own
DATASETS = (*TITLES, "glyphs")
SCALES = ("paper", "cpu")
MC_DROPOUT, MC_DROPOUT_HEADS = "mc-dropout", "mc-dropout-heads"  # only DenseNets have dropout
USUAL = {  # names of folders in $SUREFIND_DATA
    "cub200": ("cub200", "CUB_200_2011", "cub200-2010"),
    "cars196": ("cars196",),
    "msls": ("msls",),
}
PLACE = "SUREFIND_DATA"
PLAN = "reproduce.json"


class PaperRow(NamedTuple):
    """A row of the paper's table, or an additional one."""

    name: str  # on the command line
    title: str
    recipe: str
    paper: str | None = None  # the paper's name of it
    ranking: Literal["means", "expected"] = "means"
    passes: int | None = None  # with dropout


ROWS = (
    PaperRow("triplet", "Triplet", "triplet", "Triplet"),
    PaperRow("mc-dropout", "Triplet (MC=50)", MC_DROPOUT, "Triplet (MC=50)", passes=50),
    PaperRow("tripreg", "TripReg", "tripreg", "TripReg"),
    PaperRow("bayes-vmf", "Bayes vMF", "bayes-vmf", "Bayes vMF"),
    PaperRow("bayes-gauss", "Bayes Gauss", "bayes-gauss", "Bayes Triplet"),
    PaperRow(
        "bayes-gauss-exp",  # the model of the row above, ranked by expected distance
        "Bayes Gauss (Exp)",
        "bayes-gauss",
        "Bayes Triplet (Exp)",
        ranking="expected",
    ),
    PaperRow("bayes-vmf-exact", "Bayes vMF, exact moments", "bayes-vmf-exact"),
    PaperRow("bayes-gauss-unit", "Bayes Gauss, unit means", "bayes-gauss-unit"),
    PaperRow("bayes-centred", "Bayes centred", "bayes-centred"),
)


def choose_rows(names: str | None) -> tuple[PaperRow, ...]:
    """Return the rows named in a comma-separated list, in the order of the table; None: all."""
    if names is None:
        return ROWS
    chosen = [name.strip() for name in names.split(",")]
    for name in chosen:
        check_choice("rows", name, tuple(row.name for row in ROWS))
    return tuple(row for row in ROWS if row.name in chosen)


def find_source(dataset: str, given: str | None) -> str:
    """Return what was given, else a folder of a usual name in $SUREFIND_DATA, for `open_dataset`.

    A plain folder is read as the data set's own layout.
    """
    if found := look_for(dataset, given):
        return found
    raise InvalidFile(
        f"where is {dataset}?",
        fix=f"name its folder, --data FOLDER, or set {PLACE} to a folder with {' or '.join(USUAL[dataset])} in it",
    )


def look_for(dataset: str, given: str | None) -> str | None:
    """Like `find_source`; None where nothing was given and nothing is there."""
    if given is not None:
        if given.partition(":")[0] in READERS or Path(given).is_file():
            return given
        if not Path(given).is_dir():
            raise InvalidFile(f"{given}: no such folder")
        return f"{dataset}:{given}"
    if dataset == "glyphs":
        return dataset
    place = os.environ.get(PLACE)
    folders = [Path(place) / name for name in USUAL[dataset]] if place else []
    return next((f"{dataset}:{folder}" for folder in folders if folder.is_dir()), None)


@dataclass(frozen=True)
class Plan:
    """A table to reproduce: data set, backbone, scale, rows and output folder."""

    dataset: str
    data: str  # as `open_dataset` takes it
    output: Path
    backbone: str = "resnet50"  # whose figures are quoted; trained at the scale "paper"
    scale: str = "paper"  # glyphs have one of their own
    seeds: int = 1
    rows: tuple[PaperRow, ...] = ROWS
    settings: tuple[str, ...] = ()  # of every recipe, `a.b=c`
    foreign: str | None = None  # out-of-distribution data, unless it is the data's own
    train_data: str | None = None  # where the table trains on another set; None: not known
    command: str = "surefind reproduce"  # as it was called

    def __post_init__(self) -> None:
        check_choice("dataset", self.dataset, DATASETS)
        check_choice("backbone", self.backbone, tuple(BACKBONES))
        check_choice("scale", self.scale, SCALES)
        check_whole("seeds", self.seeds)
        if self.train_data is not None and self.dataset not in TRAINED_ON:
            raise InvalidArgument(
                "train_data",
                expected=f"none: {self.dataset} is trained on its own training classes",
                got=repr(self.train_data),
                fix=f"leave it out; it is for {', '.join(TRAINED_ON)}",
            )

    @property
    def trained_on(self) -> str | None:
        """Data to train on; None where it is another data set that was not named."""
        return self.train_data if self.dataset in TRAINED_ON else self.data

    @property
    def training_dataset(self) -> str:
        return TRAINED_ON.get(self.dataset, self.dataset)

    @property
    def results_folder(self) -> Path:
        """Folder of evaluations and table; a folder of models may be shared by two tables."""
        return self.output / self.dataset if self.dataset in TRAINED_ON else self.output

    @property
    def at_paper_scale(self) -> bool:
        return self.scale == "paper" and self.dataset != "glyphs"

    @property
    def recipes(self) -> str:
        """Name of the recipe that overrides those of the rows."""
        return "" if self.at_paper_scale else "glyphs" if self.dataset == "glyphs" else self.scale

    @property
    def name(self) -> str:
        """Name of the table: cub200-resnet50, cub200-cpu, glyphs."""
        if self.dataset == "glyphs":
            return self.dataset
        return f"{self.dataset}-{self.recipes or self.backbone}"

    def recipe_name(self, row: PaperRow) -> str:
        """Name of the row's recipe, with that of the scale."""
        name = row.recipe
        if name == MC_DROPOUT and not (self.at_paper_scale and self.backbone == "densenet161"):
            name = MC_DROPOUT_HEADS
        return f"{name}+{self.recipes}" if self.recipes else name

    def recipe(self, row: PaperRow, seed: int) -> Recipe:
        weights = f"encoder.backbone={self.backbone}.tv_in1k"  # torchvision's
        backbone = [weights] if self.at_paper_scale else []
        return Recipe.read(self.recipe_name(row), (*backbone, *self.settings, f"seed={seed}"))

    def model(self, row: PaperRow, seed: int) -> Path:
        return self.output / "models" / self.recipe_name(row) / f"seed-{seed}"

    def evaluation(self, row: PaperRow, seed: int) -> Path:
        return self.results_folder / "evaluations" / self.recipe_name(row) / f"seed-{seed}"


class Interrupted(SurefindError):
    """Stopped on request; everything is saved."""


def reproduce(
    plan: Plan,
    *,
    evaluate: Callable[..., EvalResult] = evaluate_into,
    train: Callable[..., object] = train_model,
    say: Callable[[str], None] = lambda _: None,
    on_step: Callable[[StepInfo], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[PaperRow, list[EvalResult]]:
    """Train and evaluate every row of the plan.

    A model trained to its end with the same recipe is reused, an unfinished one is resumed; results
    of the same model and data are reused.

    Args:
        plan: The table.
        evaluate: Evaluates a model and writes a report.
        train: Trains a model.
        say: Called with a message for each piece of work.
        on_step: Called with each training step.
        should_stop: Returns whether to stop; asked between pieces of work and training steps.

    Returns:
        For each row, the results of its seeds.

    Raises:
        InvalidFile: The output folder belongs to another table, recipe or data.
        Interrupted: `should_stop` returned true.
    """
    open_once = cache(open_dataset)
    recipes = {(row, seed): plan.recipe(row, seed) for row in plan.rows for seed in range(plan.seeds)}
    check_models(plan)
    claim(plan)

    def go_on(where: str) -> None:
        if should_stop():
            problem = f"stopped at {where}; everything is saved"
            raise Interrupted(problem, fix="run it again to go on")

    def train_row(folder: Path, recipe: Recipe, where: str) -> None:
        if folder.is_dir() and is_trained(folder, recipe):
            say(f"{where}: model is there")
            return
        resume = RunFolder(folder).state_path.is_file()
        go_on(where)
        data = plan.trained_on
        assert data is not None  # check_models
        say(f"{where}: training on {data}" + (", resumed" if resume else ""))
        splits = open_once(data, val_share=recipe.data.val_share)
        try:
            train(splits, recipe, folder, resume=resume, on_step=on_step, should_stop=should_stop)
        except TrainingStopped:
            go_on(where)
            raise

    def evaluated(row: PaperRow, seed: int, where: str) -> EvalResult:
        folder = plan.evaluation(row, seed)
        request = Request(
            plan.model(row, seed),
            plan.data,
            foreign=plan.foreign,
            passes=row.passes,
            title=f"{plan.recipe_name(row)}, seed {seed}",
        )
        result = finished_evaluation(request, folder)
        if result is not None:
            say(f"{where}: results on {plan.data} are there")
            return result
        go_on(where)
        say(f"{where}: evaluating on {plan.data}")
        return evaluate(request, output=folder)

    found: dict[PaperRow, list[EvalResult]] = {row: [] for row in plan.rows}
    for number, row in enumerate(plan.rows, start=1):
        for seed in range(plan.seeds):
            where = f"[{number}/{len(plan.rows)}] {row.title}, seed {seed}"
            train_row(plan.model(row, seed), recipes[row, seed], where)
            found[row].append(evaluated(row, seed, where))
    return found


def claim(plan: Plan) -> None:
    """Record table and data in the output folder; refuse the folder of another table."""
    make_writable(plan.results_folder)
    table = replace(plan, dataset=plan.training_dataset, train_data=None).name
    known = {} if plan.trained_on is None else {"data": plan.trained_on}
    claim_folder(plan.output / PLAN, {"table": table, **known}, record=bool(known))


def claim_folder(file: Path, settings: Mapping[str, Any], *, record: bool = True) -> None:
    """Record the settings that a folder is made with; raise InvalidFile if it has others."""
    if record and not file.is_file():
        make_writable(file.parent)
        write_whole(file, (json.dumps(settings, indent=1) + "\n").encode())
    then = claimed(file)
    for key, value in settings.items():
        if key in then and then[key] != value:
            raise InvalidFile(
                f"{file.parent} was made with {key} {then[key]}, not {value}",
                fix=f"use the same {key}, or another folder",
            )


def claimed(file: Path) -> dict[str, Any]:
    """Return the settings that a folder was made with; empty if there is no record."""
    try:
        found = json.loads(file.read_text()) if file.is_file() else {}
        if not isinstance(found, dict):
            raise TypeError("it is no JSON object")
    except (OSError, ValueError, TypeError) as error:
        raise InvalidFile(f"cannot read {file}: {error}", fix="choose another folder") from error
    return found


def check_models(plan: Plan) -> None:
    """Raise InvalidFile if models are missing and the data to train them is not known."""
    if plan.trained_on is not None:
        return
    data = plan.training_dataset
    for folder in [plan.model(row, seed) for row in plan.rows for seed in range(plan.seeds)]:
        if not _has_ended(folder):
            raise InvalidFile(
                f"where is {data}? The models of this table are trained on it, and {folder} is missing",
                fix=f"name the data, --train-data FOLDER, or use the output folder of surefind reproduce {data}",
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
    return (folder / "run" / "rejected.csv").is_file()  # written last


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
