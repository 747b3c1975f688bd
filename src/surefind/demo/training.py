"""An encoder of the demo: trained, or found trained by an earlier run."""

import shutil
from pathlib import Path
from typing import NamedTuple

from surefind.datasets.splits import Splits
from surefind.demo.stages import Tell
from surefind.encoders.encoder import Encoder
from surefind.reports.reproduce.finished import check_same_recipe, is_trained
from surefind.training.folder import RunFolder
from surefind.training.log import read_log
from surefind.training.loop import train
from surefind.training.recipe import Recipe


class Trained(NamedTuple):
    """A model, and how it came to be."""

    encoder: Encoder
    start_recall: float  # R@1 on validation classes before training
    recall: float  # of the model that was kept
    steps: int
    reused: bool


def trained(splits: Splits, recipe: Recipe, folder: Path, *, tell: Tell) -> Trained:
    """A finished model is used as it is, an unfinished one goes on where it was."""
    reused = _is_finished(folder, recipe)
    if not reused:
        steps = recipe.schedule.steps
        train(
            splits,
            recipe,
            folder,
            resume=RunFolder(folder).state_path.is_file(),
            on_step=lambda info: tell("", info.step, steps),
        )
    recalls = [
        row.recall for row in read_log(folder / "run" / "log.csv") if row.recall == row.recall
    ]
    first, later = recalls[0], recalls[1:]
    # The untrained model is not kept where there is a variance, which it knows nothing about.
    kept = later if recipe.encoder.family != "point" else recalls
    return Trained(Encoder.load(folder), first, max(kept), recipe.schedule.steps, reused)


def _is_finished(folder: Path, recipe: Recipe) -> bool:
    if not (folder / "run" / "recipe.toml").is_file():
        return False
    check_same_recipe(folder, recipe)
    if is_trained(folder):
        return True
    if not RunFolder(folder).state_path.is_file():
        shutil.rmtree(folder)  # it was stopped before its first state was saved
    return False
