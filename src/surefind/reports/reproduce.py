"""Reproduce a table of the paper: train and evaluate its rows, and compare with the printed figures.

Warburg et al. 2021, "Bayesian Triplet Loss", tables 1 to 3 (paper.csv): R is recall, M mean average
precision, ECE the expected calibration error of the query variance. "Bayes Triplet" is the loss
with Gaussians. Finished work is not done again.
"""

import csv
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import cache, partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from surefind.datasets import open_dataset
from surefind.datasets.registry import READERS
from surefind.encoders.serialization import read_config
from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.metrics import PairedTest, paired_test
from surefind.metrics.intervals import Estimate
from surefind.reports.evaluate import OWN_FOREIGN, Request
from surefind.reports.report import evaluate_into
from surefind.reports.result import FORMAT, About, EvalResult, QueryTable
from surefind.reports.signals import TRAINING_FREE, signal_name
from surefind.reports.tables import MISSING, TEMPLATES
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
PLAN = "reproduce.json"
WRONG, BEST_FREE = "Wrong top hits by uncertainty (ours)", ""
SIGNALS = {  # by table and column: signal, metric
    WRONG: {
        "AUROC, query variance": ("query_var", "auroc"),
        "AUROC, training-free": (BEST_FREE, "auroc"),
        "AURC, query variance": ("query_var", "aurc"),
        "AURC, training-free": (BEST_FREE, "aurc"),
    },
    "Foreign queries (ours)": {
        "AUROC, pair variance": ("pair_var", "ood_auroc"),
        "AUROC, nearest distance": ("nearest_distance", "ood_auroc"),
    },
    "Known corruption (ours)": {"rank correlation of query variance and known corruption": ("query_var", "difficulty")},
}
COLUMNS = ("R@1", "R@5", "R@10", "M@1", "M@5", "M@10", "ECE@1", "ECE@5", "ECE@10")
TEST_QUERIES = {"cub200": 5924, "cars196": 8131}  # of MSLS the paper does not say

ECE = "equal_width"  # the definition that agrees with the paper's tables


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
        fix=f"name it, --data FOLDER, or set SUREFIND_DATA to a folder with {' or '.join(USUAL[dataset])} in it",
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
    place = Path(os.environ.get("SUREFIND_DATA") or "/nowhere")
    return next((f"{dataset}:{place / name}" for name in USUAL[dataset] if (place / name).is_dir()), None)


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

    Raises:
        InvalidFile: The output folder belongs to another table, recipe or data.
        Interrupted: `should_stop` returned true.
    """
    data, open_once = plan.trained_on, cache(open_dataset)
    recipes = {(row, seed): plan.recipe(row, seed) for row in plan.rows for seed in range(plan.seeds)}
    missing = [folder for row, seed in recipes if not _has_ended(folder := plan.model(row, seed))]
    if data is None and missing:
        where = plan.training_dataset
        raise InvalidFile(
            f"where is {where}? The models of this table are trained on it, and {missing[0]} is missing",
            fix=f"name the data, --train-data FOLDER, or use the output folder of surefind reproduce {where}",
        )
    make_writable(plan.results_folder)
    table = replace(plan, dataset=plan.training_dataset, train_data=None).name
    claim_folder(plan.output / PLAN, {"table": table} | ({"data": data} if data else {}), record=data is not None)

    def go_on(where: str) -> None:
        if should_stop():
            raise Interrupted(f"stopped at {where}; everything is saved", fix="run it again to go on")

    def train_row(folder: Path, recipe: Recipe, where: str) -> None:
        if folder.is_dir() and is_trained(folder, recipe):
            say(f"{where}: model is there")
            return
        resume = RunFolder(folder).state_path.is_file()
        go_on(where)
        say(f"{where}: training on {data}" + (", resumed" if resume else ""))
        splits = open_once(data, val_share=recipe.data.val_share)
        try:
            train(splits, recipe, folder, resume=resume, on_step=on_step, should_stop=should_stop)
        except TrainingStopped:
            go_on(where)
            raise

    def evaluated(row: PaperRow, seed: int, where: str) -> EvalResult:
        folder, title = plan.evaluation(row, seed), f"{plan.recipe_name(row)}, seed {seed}"
        request = Request(plan.model(row, seed), plan.data, foreign=plan.foreign, passes=row.passes, title=title)
        result = finished_evaluation(request, folder)
        if result is not None:
            say(f"{where}: results on {plan.data} are there")
            return result
        go_on(where)
        say(f"{where}: evaluating on {plan.data}")
        return evaluate(request, output=folder)

    found: dict[PaperRow, list[EvalResult]] = {row: [] for row in plan.rows}
    for (row, seed), recipe in recipes.items():
        where = f"[{plan.rows.index(row) + 1}/{len(plan.rows)}] {row.title}, seed {seed}"
        train_row(plan.model(row, seed), recipe, where)
        found[row].append(evaluated(row, seed, where))
    return found


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


@cache
def paper_tables() -> dict[tuple[str, str, str], dict[str, float]]:
    """Return the printed figures by column, for each data set, backbone and row of the paper."""
    with (Path(__file__).parent / "paper.csv").open(newline="") as file:
        return {
            (line["dataset"], line["backbone"], line["row"]): {
                column: float(line[column]) for column in COLUMNS if line[column]
            }
            for line in csv.DictReader(file)
        }


@dataclass(frozen=True)
class SeedMean:
    """A metric over seeds: means of the values and of the interval's ends."""

    value: float
    low: float
    high: float
    std: float | None  # between seeds, from two on


@dataclass(frozen=True)
class ComparedRow:
    """A row of the paper's table and our result."""

    title: str
    recipe: str
    seeds: int
    paper: dict[str, float]  # by column
    ours: dict[str, SeedMean]  # by column of all tables
    free: str = ""  # the training-free signal with the best AUROC on these queries
    against: PairedTest | None = None  # the first row, in R@1


@dataclass(frozen=True)
class Comparison:
    """Contents of a table."""

    plan: Plan
    about: About  # of the first row
    rows: tuple[ComparedRow, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        rows = [asdict(row) for row in self.rows]
        for row in rows:
            row["against"] = row["against"] and row["against"]._asdict()
        facts = {"name": self.plan.name, "data": self.plan.data, "command": self.plan.command}
        return {**facts, "queries": self.about.queries, "rows": rows}


def compare(plan: Plan, results: Mapping[PaperRow, Sequence[EvalResult]]) -> Comparison:
    """Return the results of a plan, by row and seed, beside those of the paper."""
    rows: list[ComparedRow] = []
    for row, found in results.items():
        rankings = [result.rankings[row.ranking] for result in found]
        aurocs = {
            name: fmean(ranking.signals[name]["auroc"].value for ranking in rankings)
            for name in TRAINING_FREE
            if all("auroc" in ranking.signals.get(name, {}) for ranking in rankings)
        }
        free = max(aurocs, key=lambda name: aurocs[name], default="")
        figures: dict[str, SeedMean | None] = {}
        for column in COLUMNS:
            name = column.replace("M@", "mAP@")
            each = [its.retrieval.get(name) or its.ece.get(ECE, {}).get(name) for its in rankings]
            figures[column] = over_seeds(each)
        for column, (signal, metric) in (pair for columns in SIGNALS.values() for pair in columns.items()):
            figures[column] = over_seeds([its.signals.get(signal or free, {}).get(metric) for its in rankings])
        rows.append(
            ComparedRow(
                row.title,
                plan.recipe_name(row),
                len(rankings),
                paper_tables().get((plan.dataset, plan.backbone, row.paper or ""), {}),
                {column: figure for column, figure in figures.items() if figure is not None},
                free,
                against(plan, row, plan.rows[0]) if rows else None,
            )
        )
    return Comparison(plan, results[plan.rows[0]][0].about, tuple(rows))


def over_seeds(estimates: Sequence[Estimate | None]) -> SeedMean | None:
    """Return the mean over seeds; None where a seed has no estimate."""
    known = [astuple(estimate) for estimate in estimates if estimate is not None]
    if len(known) < len(estimates):
        return None
    values, low, high = zip(*known, strict=True)
    return SeedMean(fmean(values), fmean(low), fmean(high), stdev(values) if len(values) > 1 else None)


def against(plan: Plan, row: PaperRow, other: PaperRow) -> PairedTest | None:
    """Test R@1 of a row against another one query by query; None without their query tables.

    Queries of one label are resampled and flipped together.
    """
    first, second = _right(plan, row), _right(plan, other)
    if first is None or second is None or first.keys() != second.keys():
        return None
    ours, theirs = (torch.tensor([values[query] for query in first], dtype=torch.float64) for values in (first, second))
    labels = [label or name for name, label in first]  # no label: matches are by position
    groups = torch.from_numpy(np.unique(labels, return_inverse=True)[1])
    return paired_test(ours, theirs, groups=groups)


def _right(plan: Plan, row: PaperRow) -> dict[tuple[str, str], float] | None:
    """Return by query (id, label) the share of seeds whose top hit is right."""
    shares: list[dict[tuple[str, str], bool]] = []
    for seed in range(plan.seeds):
        path = plan.evaluation(row, seed) / "queries.csv"
        if not path.is_file():
            return None
        queries = QueryTable.read(path).own()
        named = zip(queries["id"].tolist(), queries["label"].tolist(), strict=True)
        shares.append(dict(zip(named, queries[f"{row.ranking}.match_1"].tolist(), strict=True)))
    if any(share.keys() != shares[0].keys() for share in shares):
        return None  # one of them gave images the same vector, which then count as copies
    return {query: float(np.mean([share[query] for share in shares])) for query in shares[0]}


def to_markdown(comparison: Comparison) -> str:
    """Return facts, tables, footnotes and notes as Markdown."""
    plan = comparison.plan
    recipes = map(plan.recipe_name, plan.rows)
    return TEMPLATES.get_template("paper.md").render(
        plan=plan,
        about=comparison.about,
        titles=TITLES,
        backbone=BACKBONES[plan.backbone],
        test_queries=TEST_QUERIES.get(plan.dataset),
        dropout_in_head=any(name.startswith(MC_DROPOUT_HEADS) for name in recipes),
        tables=_tables(comparison.rows),
        short=partial(re.sub, r"[^\s:=]*/", ""),  # without folders
    )


def _tables(rows: Sequence[ComparedRow]) -> dict[str, list[list[str]]]:
    """Return tables by title, the header first; without those for which there is no data."""
    of_paper = any(row.paper for row in rows)
    retrieval = [["row", "whose", "seeds", *COLUMNS]]
    for row in rows:
        if row.paper:
            quoted = (f"{row.paper[column]:.3f}" if column in row.paper else MISSING for column in COLUMNS)
            retrieval.append([row.title, "paper", MISSING, *quoted])
        whose = "ours, not in the paper" if of_paper and not row.paper else "ours"
        retrieval.append([row.title, whose, str(row.seeds), *_cells(row, COLUMNS)])
    tables = {"Retrieval and calibration": retrieval}
    for title, columns in SIGNALS.items():
        lines = [[row.title, *_cells(row, columns)] for row in rows]
        if title == WRONG:
            header = ["row", "training-free", *columns, f"R@1 less {rows[0].title}'s"]
            for row, line in zip(rows, lines, strict=True):
                line.insert(1, signal_name(row.free) or MISSING)
                line.append(MISSING)
                if row.against is not None:
                    value, low, high = astuple(row.against.difference)
                    line[-1] = f"{value:+.3f} [{low:+.3f}, {high:+.3f}] p {row.against.p_value:.3f}"
            tables[title] = [header, *lines]
        elif any(column in row.ours for row in rows for column in columns):
            tables[title] = [["row", *columns], *lines]
    return tables


def _cells(row: ComparedRow, columns: Iterable[str]) -> list[str]:
    """Write each figure with its interval, and its spread over seeds."""
    found = [row.ours.get(column) for column in columns]
    return [
        f"{its.value:.3f} [{its.low:.3f}, {its.high:.3f}]" + (f" ± {its.std:.3f}" if its.std is not None else "")
        if its is not None
        else MISSING
        for its in found
    ]
