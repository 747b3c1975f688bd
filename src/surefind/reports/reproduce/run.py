"""Train and evaluate every row; what is finished is not done again."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

from surefind.datasets import open_dataset
from surefind.datasets.splits import Splits
from surefind.errors import SurefindError
from surefind.reports.evaluate import Request
from surefind.reports.reproduce.finished import (
    check_models,
    check_same_recipe,
    claim,
    finished_evaluation,
    is_trained,
)
from surefind.reports.reproduce.plan import Plan
from surefind.reports.reproduce.rows import Row
from surefind.reports.result import EvalResult
from surefind.training.folder import RunFolder
from surefind.training.log import StepInfo
from surefind.training.loop import train as train_model
from surefind.training.recipe import Recipe
from surefind.training.watch import TrainingStopped


class RowResult(NamedTuple):
    """What was found for one row."""

    row: Row
    recipe: str
    results: tuple[EvalResult, ...]  # one for each seed
    zero_shot: tuple[tuple[EvalResult, ...], ...] = ()  # for each seed, one for each data


class EvaluateInto(Protocol):
    """Evaluates a model and writes its report, the results last."""

    def __call__(self, request: Request, *, output: Path, kept_in: Path) -> EvalResult: ...


class TrainModel(Protocol):
    """Trains a model into a folder."""

    def __call__(
        self,
        splits: Splits,
        recipe: Recipe,
        output: Path,
        *,
        resume: bool,
        on_step: Callable[[StepInfo], None],
        should_stop: Callable[[], bool],
    ) -> object: ...


class Reporter(NamedTuple):
    """Who hears how it goes, and who may end it."""

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
    evaluate: EvaluateInto,
    train: TrainModel = train_model,
    reporter: Reporter | None = None,
) -> list[RowResult]:
    """Every row of the plan with the results of its seeds.

    A model that was trained to its end with the same recipe is reused, an unfinished one is
    resumed; results of the same model and data are reused. Data to train on is needed only where
    a model is not trained yet.
    """
    work = _Work(plan, evaluate, train, reporter or Reporter(), cache(open_dataset))
    seeds = {row: range(plan.seeds_of(row)) for row in plan.rows}
    recipes = {(row, seed): plan.recipe(row, seed) for row in plan.rows for seed in seeds[row]}
    check_models(plan)
    claim(plan)
    found = []
    for number, row in enumerate(plan.rows, start=1):
        results, others = [], []
        for seed in seeds[row]:
            where = f"[{number}/{len(plan.rows)}] {row.title}, seed {seed}"
            work.train_model(plan.model(row, seed), recipes[row, seed], where)
            own, *zero_shot = work.evaluate_model(row, seed, where)
            results.append(own)
            others.append(tuple(zero_shot))
        found.append(RowResult(row, plan.recipe_name(row), tuple(results), tuple(others)))
    return found


@dataclass(frozen=True)
class _Work:
    plan: Plan
    evaluate: EvaluateInto
    train: TrainModel
    reporter: Reporter
    open_dataset: Callable[..., Splits]

    def train_model(self, folder: Path, recipe: Recipe, where: str) -> None:
        """The model of a row, trained to its end."""
        resume = RunFolder(folder).state_path.is_file()
        if folder.is_dir():
            check_same_recipe(folder, recipe)
            if is_trained(folder):
                self.reporter.say(f"{where}: model is there")
                return
            if not resume:
                shutil.rmtree(folder)  # it was stopped before its first state was saved
        self._may_go_on(where)
        data = self.plan.trained_on
        assert data is not None  # check_models
        self.reporter.say(f"{where}: training on {data}" + (", resumed" if resume else ""))
        try:
            self.train(
                self.open_dataset(data, val_share=recipe.data.val_share),
                recipe,
                folder,
                resume=resume,
                on_step=self.reporter.on_step,
                should_stop=self.reporter.should_stop,
            )
        except TrainingStopped:
            self._may_go_on(where)
            raise

    def evaluate_model(self, row: Row, seed: int, where: str) -> list[EvalResult]:
        """The results of a row's model on the table's data and on what it was not trained for."""
        kept_in = self.plan.evaluation(row, seed) / "embeddings"
        results = []
        for request, folder in self.plan.requests(row, seed):
            result = finished_evaluation(request, folder)
            if result is None:
                self._may_go_on(where)
                self.reporter.say(f"{where}: evaluating on {request.data}")
                result = self.evaluate(request, output=folder, kept_in=kept_in)
            else:
                self.reporter.say(f"{where}: results on {request.data} are there")
            results.append(result)
        return results

    def _may_go_on(self, where: str) -> None:
        if self.reporter.should_stop():
            raise Interrupted(where)
