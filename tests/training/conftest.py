"""Small pictures in class folders, and recipes that train on them in seconds."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from surefind.training.recipe import Recipe

SMALL = {
    "encoder": {"backbone": "tiny", "weights": "none", "dim": 16, "size": 16},
    "batch": {"kind": "balanced", "classes": 4, "images": 3},
    "optimiser": {"lr": 1e-3},
    "augment": {"use": False},
    "schedule": {"steps": 8, "validate_every": 4, "checkpoint_every": 2, "log_every": 1},
}


def write_pictures(folder: Path, *, classes: int = 12, per_class: int = 5, seed: int = 0) -> Path:
    """Class folders of 20 x 20 PNGs: a pattern for each class, with noise."""
    random = np.random.default_rng(seed)
    for number in range(classes):
        place = folder / f"class{number:02d}"
        place.mkdir(parents=True)
        pattern = random.integers(0, 255, (5, 5, 3)).repeat(4, axis=0).repeat(4, axis=1)
        for picture in range(per_class):
            noisy = pattern + random.normal(0, 30, pattern.shape)
            Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(place / f"{picture}.png")
    return folder


def small_recipe(**tables) -> Recipe:
    """The small recipe with some keys changed: small_recipe(loss={"name": "triplet"})."""
    values = {name: dict(table) for name, table in SMALL.items()}
    for name, table in tables.items():
        values[name] = values.get(name, {}) | table if isinstance(table, dict) else table
    return Recipe.from_dict(values)


@pytest.fixture(autouse=True)
def one_thread():
    """Pictures this small gain nothing from a second one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("pictures"))


@pytest.fixture
def recipe():
    return small_recipe
