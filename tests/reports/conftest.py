"""Evaluations, models and pictures that tests of reports share."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from class_folders import write_pictures
from evaluations import make_evaluation

from surefind.encoders import Encoder, EncoderConfig
from surefind.encoders.serialization import read_config
from surefind.images.preprocess import Preprocessing
from surefind.reports.evaluate import Request
from surefind.reports.reproduce import Plan, choose_rows
from surefind.reports.result import EvalResult, QueryTable
from surefind.training.build import make_encoder
from surefind.training.run_folder import RunFolder

SMALL = (
    "encoder.dim=8", "encoder.size=16", "batch.classes=3", "batch.images=2", "augment.use=false",
    "schedule.steps=4", "schedule.validate_every=2", "data.val_share=0.1",
)  # fmt: skip


@pytest.fixture(scope="session")
def evaluation(tmp_path_factory) -> tuple[EvalResult, QueryTable]:
    """120 queries of six classes with pictures, two rankings, and 30 foreign queries."""
    return make_evaluation(tmp_path_factory.mktemp("evaluation"))


@pytest.fixture(scope="session")
def without_variance(tmp_path_factory) -> tuple[EvalResult, QueryTable]:
    """The same number of queries for a model without variance; none is foreign."""
    return make_evaluation(tmp_path_factory.mktemp("plain"), foreign=0, learned=False)


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Path:
    """A model, pictures of eight classes (four to train on), and foreign pictures."""
    folder = tmp_path_factory.mktemp("evaluate")
    write_pictures(folder / "own", classes=8)
    write_pictures(folder / "foreign", classes=3, seed=9)
    (folder / "own" / "class07" / "broken.png").write_bytes(b"no picture")
    for family, dropout in (("gaussian", 0.0), ("point", 0.3)):
        config = EncoderConfig(
            "tiny", dim=16, family=family, head_dropout=dropout, preprocessing=Preprocessing(size=16)
        )
        Encoder.create(config, seed=0).save(folder / family)
    return folder


@dataclass
class FakeWork:
    """Training and evaluation that write what the real ones write, and record their calls."""

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
        (run.run / "rejected.csv").touch()

    def evaluate(self, request: Request, *, output: Path) -> EvalResult:
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


@pytest.fixture
def work(evaluation) -> FakeWork:
    return FakeWork(evaluation[0])


@pytest.fixture(scope="session")
def pictures(tmp_path_factory) -> Path:
    """Class folders, enough to train a step on."""
    return write_pictures(tmp_path_factory.mktemp("pictures"), classes=16, per_class=3)


@pytest.fixture
def plan(pictures, tmp_path: Path) -> Plan:
    """Small models of three rows, the last two of which share one."""
    rows = choose_rows("triplet,bayes-gauss,bayes-gauss-exp")
    return Plan("glyphs", f"folder:{pictures}", tmp_path / "out", rows=rows, settings=SMALL)
