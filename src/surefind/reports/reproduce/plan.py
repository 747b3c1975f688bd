"""What is to be reproduced, and where each part of it lies."""

from dataclasses import dataclass, replace
from pathlib import Path

from surefind.choices import check_choice
from surefind.errors import InvalidArgument
from surefind.reports.evaluate import Request
from surefind.reports.reproduce.paper import BACKBONES, TITLES
from surefind.reports.reproduce.rows import ROWS, Row
from surefind.training.recipe import Recipe

DATASETS = (*TITLES, "glyphs")
SCALES = ("paper", "cpu")
CENTRED = "bayes-centred"


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

        for name in self.once:
            check_choice("once", name, tuple(row.name for row in ROWS))

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

    @property
    def recipes(self) -> str:
        """How the names of its recipes begin."""
        return self.name if self.at_paper_scale or self.dataset == "glyphs" else self.scale

    def recipe_name(self, row: Row) -> str:
        return f"{self.recipes}-{row.recipe}"

    def recipe(self, row: Row, seed: int) -> Recipe:
        """The recipe of a row; the paper's settings with the centred loss have no file."""
        name, centred = self.recipe_name(row), []
        if self.at_paper_scale and row.recipe == CENTRED:
            name, centred = f"{self.recipes}-bayes-gauss", ["loss.centred=true"]
        return Recipe.read(name, (*centred, *self.settings, f"seed={seed}"))

    def model(self, row: Row, seed: int) -> Path:
        return self.output / "models" / self.recipe_name(row) / f"seed-{seed}"

    def evaluation(self, row: Row, seed: int) -> Path:
        return self.output / "evaluations" / self.recipe_name(row) / f"seed-{seed}"

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
