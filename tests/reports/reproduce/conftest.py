"""A stand-in for training and evaluation that leaves what the real ones leave."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from class_folders import write_pictures
from evaluations import make_evaluation

from surefind.encoders.serialization import read_config
from surefind.reports.evaluate import Request
from surefind.reports.reproduce.run import Plan, choose_rows
from surefind.reports.result import EvalResult
from surefind.training.build import make_encoder
from surefind.training.run_folder import RunFolder

SMALL = (
    "encoder.dim=8",
    "encoder.size=16",
    "batch.classes=3",
    "batch.images=2",
    "augment.use=false",
    "schedule.steps=4",
    "schedule.validate_every=2",
    "data.val_share=0.1",
)


@dataclass
class FakeWork:
    """Trains nothing, finds what it is told, and remembers what it was asked for."""

    result: EvalResult
    trained: list[str] = field(default_factory=list)
    trained_on: set[str] = field(default_factory=set)  # classes, those held out to validate too
    evaluated: list[tuple[str, int | None]] = field(default_factory=list)

    def train(self, splits, recipe, output: Path, *, resume, on_step, should_stop) -> None:
        self.trained.append(f"{output.parent.name}/{output.name}")
        self.trained_on |= {*splits.train.classes, *splits.val.classes}
        run = RunFolder(output)
        run.start(recipe)
        make_encoder(recipe).save(run.output, card={})
        run.write_rejected([])

    def evaluate(self, request: Request, *, output: Path, kept_in: Path) -> EvalResult:
        self.evaluated.append((f"{output.parent.name}/{output.name}", request.passes))
        about = replace(
            self.result.about,
            data=request.data,
            split=request.split,
            fingerprint=read_config(request.model).fingerprint,
            foreign=request.foreign or "its own foreign split",
        )
        result = replace(self.result, about=about)
        output.mkdir(parents=True, exist_ok=True)
        result.write(output / "results.json")
        return result


@pytest.fixture(scope="session")
def found(tmp_path_factory) -> EvalResult:
    return make_evaluation(tmp_path_factory.mktemp("evaluation"))[0]


@pytest.fixture
def work(found) -> FakeWork:
    return FakeWork(found)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory) -> Path:
    """Class folders, enough to train a step on."""
    return write_pictures(tmp_path_factory.mktemp("pictures"), classes=16, per_class=3)


@pytest.fixture
def plan(pictures, tmp_path: Path) -> Plan:
    """Small models of three rows, the last two of which share one."""
    return Plan(
        "glyphs",
        f"folder:{pictures}",
        tmp_path / "out",
        rows=choose_rows(["triplet", "bayes-gauss", "bayes-gauss-exp"]),
        settings=SMALL,
    )
