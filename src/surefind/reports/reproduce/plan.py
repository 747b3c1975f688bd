"""What is to be reproduced: the rows of a table, its data, and where each part of it lies."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from surefind.datasets.registry import READERS
from surefind.errors import InvalidArgument, InvalidFile
from surefind.reports.evaluate import Request
from surefind.reports.reproduce.paper import BACKBONES, TITLES, TRAINED_ON
from surefind.training.recipe import Recipe
from surefind.validation import check_choice, check_whole

DATASETS = (*TITLES, "glyphs")
SCALES = ("paper", "cpu")
MC_DROPOUT, MC_DROPOUT_HEADS = "mc-dropout", "mc-dropout-heads"  # only DenseNets have dropout
USUAL = {  # names of folders in $SUREFIND_DATA
    "cub200": ("cub200", "CUB_200_2011", "cub200-2010"),
    "cars196": ("cars196",),
    "msls": ("msls",),
}
PLACE = "SUREFIND_DATA"


class PaperRow(NamedTuple):
    """One line of the paper's table, or one of ours."""

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


def choose_rows(names: Sequence[str]) -> tuple[PaperRow, ...]:
    """Return the named rows in the order of the table."""
    for name in names:
        check_choice("rows", name, tuple(row.name for row in ROWS))
    return tuple(row for row in ROWS if row.name in names)


def find_source(dataset: str, given: str | None) -> str:
    """Return what was given, else a folder of a usual name in $SUREFIND_DATA, for `open_dataset`.

    A plain folder is read as the data set's own layout.
    """
    if found := look_for(dataset, given):
        return found
    raise InvalidFile(
        f"where is {dataset}?",
        fix=f"name its folder, --data FOLDER, or set {PLACE} to a folder with "
        f"{' or '.join(USUAL[dataset])} in it",
    )


def look_for(dataset: str, given: str | None) -> str | None:
    """Like `find_source`; None where nothing was given and nothing is there."""
    if given is not None:
        if given.partition(":")[0] in READERS or Path(given).is_file():
            return given
        if not Path(given).is_dir():
            raise InvalidFile(f"{given}: no such folder", fix=f"name the folder of {dataset}")
        return f"{dataset}:{given}"
    if dataset == "glyphs":
        return dataset
    place = os.environ.get(PLACE)
    folders = [Path(place) / name for name in USUAL[dataset]] if place else []
    return next((f"{dataset}:{folder}" for folder in folders if folder.is_dir()), None)


@dataclass(frozen=True)
class Plan:
    """One table: a data set, a backbone, a scale, and the folder of everything made for it."""

    dataset: str
    data: str  # as `open_dataset` takes it
    output: Path
    backbone: str = "resnet50"  # whose figures are quoted; trained at the scale "paper"
    scale: str = "paper"  # glyphs have one of their own
    seeds: int = 1
    once: tuple[str, ...] = ()  # rows that have one seed all the same
    rows: tuple[PaperRow, ...] = ROWS
    settings: tuple[str, ...] = ()  # of every recipe, `a.b=c`
    foreign: str | None = None  # out-of-distribution data, unless it is the data's own
    zero_shot: tuple[str, ...] = ()  # data that every model is tried on as well, all of it
    train_data: str | None = None  # where the table trains on another set; None: not known
    models: Path | None = None  # the output folder of the table that trains them, unless this one

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
        for name in self.once:
            check_choice("once", name, tuple(row.name for row in ROWS))

    @property
    def trained_on(self) -> str | None:
        """Data to train on; None: it is another data set, and not known where."""
        return self.train_data if self.dataset in TRAINED_ON else self.data

    @property
    def training_dataset(self) -> str:
        return TRAINED_ON.get(self.dataset, self.dataset)

    @property
    def models_folder(self) -> Path:
        """Where the training table keeps its models, in `models/`."""
        return self.models or self.output

    @property
    def results_folder(self) -> Path:
        """Evaluations and table; beside those of the training table, whose folder it may share."""
        return self.output / self.dataset if self.dataset in TRAINED_ON else self.output

    def seeds_of(self, row: PaperRow) -> range:
        return range(1 if row.name in self.once else self.seeds)

    @property
    def at_paper_scale(self) -> bool:
        return self.scale == "paper" and self.dataset != "glyphs"

    @property
    def recipes(self) -> str:
        """The recipe that is laid over those of the rows."""
        return "" if self.at_paper_scale else "glyphs" if self.dataset == "glyphs" else self.scale

    @property
    def name(self) -> str:
        """Of the table: cub200-resnet50, cub200-cpu, glyphs."""
        if self.dataset == "glyphs":
            return self.dataset
        return f"{self.dataset}-{self.recipes or self.backbone}"

    def recipe_name(self, row: PaperRow) -> str:
        """The row's own recipe, with that of the scale over it."""
        name = row.recipe
        if name == MC_DROPOUT and not (self.at_paper_scale and self.backbone == "densenet161"):
            name = MC_DROPOUT_HEADS
        return f"{name}+{self.recipes}" if self.recipes else name

    def recipe(self, row: PaperRow, seed: int) -> Recipe:
        weights = f"encoder.backbone={self.backbone}.tv_in1k"  # torchvision's
        backbone = [weights] if self.at_paper_scale else []
        return Recipe.read(self.recipe_name(row), (*backbone, *self.settings, f"seed={seed}"))

    def model(self, row: PaperRow, seed: int) -> Path:
        return self.models_folder / "models" / self.recipe_name(row) / f"seed-{seed}"

    def evaluation(self, row: PaperRow, seed: int) -> Path:
        return self.results_folder / "evaluations" / self.recipe_name(row) / f"seed-{seed}"

    def requests(self, row: PaperRow, seed: int) -> list[tuple[Request, Path]]:
        """What a row's model is evaluated on, and where the report goes; the table's data first."""
        request = Request(
            self.model(row, seed),
            self.data,
            foreign=self.foreign,
            passes=row.passes,
            ladder=0,
            title=f"{self.recipe_name(row)}, seed {seed}",
        )
        place = self.evaluation(row, seed)
        others = [
            (replace(request, data=data, split="all", foreign=None), place / f"zero-shot-{n}")
            for n, data in enumerate(self.zero_shot)
        ]
        return [(request, place), *others]
