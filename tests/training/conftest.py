"""Small pictures in class folders, and recipes that train on them in a second."""

from pathlib import Path

import pytest
import torch
from class_folders import write_pictures

from surefind.datasets import Splits, open_dataset
from surefind.training.recipe import Recipe
from surefind.training.trainer import train

SMALL = {
    "encoder": {"backbone": "tiny", "weights": "none", "dim": 16, "size": 16},
    "batch": {"kind": "balanced", "classes": 4, "images": 3},
    "optimiser": {"lr": 1e-3},
    "augment": {"use": False},
    "schedule": {"steps": 8, "validate_every": 4, "checkpoint_every": 2, "log_every": 1},
}


def small_recipe(**tables) -> Recipe:
    """The small recipe with some keys changed: small_recipe(loss={"name": "triplet"})."""
    values = {name: dict(table) for name, table in SMALL.items()}
    for name, table in tables.items():
        values[name] = values.get(name, {}) | table if isinstance(table, dict) else table
    return Recipe.from_dict(values)


@pytest.fixture(autouse=True)
def one_thread():
    """Use one thread: pictures this small gain nothing from a second one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="session")
def splits(pictures) -> Splits:
    return open_dataset(pictures)


@pytest.fixture(scope="session")
def trained(splits, tmp_path_factory):
    """A finished run of the small recipe, not to be changed: its folder, and the steps seen."""
    seen = []
    folder = tmp_path_factory.mktemp("trained") / "model"
    train(splits, small_recipe(), folder, on_step=seen.append)
    return folder, seen


@pytest.fixture(scope="session")
def recipe():
    return small_recipe
