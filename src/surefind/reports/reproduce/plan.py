"""What is to be reproduced, and where each part of it lies."""

from dataclasses import dataclass, replace
from pathlib import Path

from surefind.errors import InvalidArgument
from surefind.reports.evaluate import Request
from surefind.reports.reproduce.paper import BACKBONES, TITLES, TRAINED_ON
from surefind.reports.reproduce.rows import ROWS, Row
from surefind.training.recipe import Recipe
from surefind.validation import check_choice

DATASETS = (*TITLES, "glyphs")
SCALES = ("paper", "cpu")
MC_DROPOUT, MC_DROPOUT_HEADS = "mc-dropout", "mc-dropout-heads"  # only DenseNets have dropout
WEIGHTS = {"resnet50": "resnet50.tv_in1k", "densenet161": "densenet161.tv_in1k"}  # torchvision's


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
    rows: tuple[Row, ...] = ROWS
    settings: tuple[str, ...] = ()  # of every recipe, `a.b=c`
    foreign: str | None = None  # out-of-distribution data, unless it is the data's own
    zero_shot: tuple[str, ...] = ()  # data that every model is tried on as well, all of it
    train_data: str | None = None  # where the table trains on another set; None: not known
    models: Path | None = None  # the output folder of the table that trains them, unless this one

    def __post_init__(self) -> None:
        check_choice("dataset", self.dataset, DATASETS)
        check_choice("backbone", self.backbone, tuple(BACKBONES))
        check_choice("scale", self.scale, SCALES)
        if self.seeds < 1:
            raise InvalidArgument(
                "seeds", expected="at least 1", got=str(self.seeds), fix="try 1, or 3"
            )
        if not self.rows:
            raise InvalidArgument(
                "rows", expected="at least one", got="none", fix=f"try {ROWS[0].name}"
            )

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
    def training_table(self) -> str:
        """The name of the table whose models these are."""
        return replace(self, dataset=self.training_dataset, train_data=None).name

    @property
    def models_folder(self) -> Path:
        """Where the training table keeps its models, in `models/`."""
        return self.models or self.output

    @property
    def results_folder(self) -> Path:
        """Evaluations and table; beside those of the training table, whose folder it may share."""
        return self.output / self.dataset if self.dataset in TRAINED_ON else self.output

    def seeds_of(self, row: Row) -> int:
        return 1 if row.name in self.once else self.seeds

    @property
    def at_paper_scale(self) -> bool:
        return self.scale == "paper" and self.dataset != "glyphs"

    @property
    def name(self) -> str:
        """Of the table: cub200-resnet50, cub200-cpu, glyphs."""
        if self.dataset == "glyphs":
            return self.dataset
        return f"{self.dataset}-{self.backbone if self.at_paper_scale else self.scale}"

    def recipe_name(self, row: Row) -> str:
        """The row's own recipe, with that of the scale over it."""
        name = row.recipe
        if name == MC_DROPOUT and not (self.at_paper_scale and self.backbone == "densenet161"):
            name = MC_DROPOUT_HEADS
        if self.at_paper_scale:
            return name
        return f"{name}+{'glyphs' if self.dataset == 'glyphs' else self.scale}"

    def recipe(self, row: Row, seed: int) -> Recipe:
        backbone = [f"encoder.backbone={WEIGHTS[self.backbone]}"] if self.at_paper_scale else []
        return Recipe.read(self.recipe_name(row), (*backbone, *self.settings, f"seed={seed}"))

    def model(self, row: Row, seed: int) -> Path:
        return self.models_folder / "models" / self.recipe_name(row) / f"seed-{seed}"

    def evaluation(self, row: Row, seed: int) -> Path:
        return self.results_folder / "evaluations" / self.recipe_name(row) / f"seed-{seed}"

    def requests(self, row: Row, seed: int) -> list[tuple[Request, Path]]:
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
        return [
            (request, place),
            *(
                (replace(request, data=data, part="all", foreign=None), place / f"zero-shot-{n}")
                for n, data in enumerate(self.zero_shot)
            ),
        ]
