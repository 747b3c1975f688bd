"""The folder of a run: the model that others load, and beside it everything that made it."""

import csv
import hashlib
import io
import json
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from surefind.datasets.splits import Splits
from surefind.encoders.encoder import Encoder
from surefind.errors import InvalidFile
from surefind.files import make_writable, write_whole
from surefind.images.loading import Rejection
from surefind.training.recipe import Recipe

VERSION = 1
ZIP = b"PK\x03\x04"  # how a file of torch.save begins
MAY_CHANGE = ("schedule.steps", "schedule.patience", "data.workers", "data.max_bad_share")


class RunFolder:
    """`output` holds the best model; `output/run` the recipe, the log and the state to resume."""

    def __init__(self, output: Path, *, writes: bool = True) -> None:
        self.output, self.writes = output, writes
        self.run = output / "run"
        self.state_path = self.run / "state.pt"

    def check_free(self) -> None:
        """Refuse a folder that holds anything but a run that never came to its first state."""
        if not (self.writes and self.output.is_dir()):
            return
        inside = {entry.name for entry in self.output.iterdir()}
        if inside - {self.run.name} or self.state_path.exists():
            raise InvalidFile(
                f"{self.output} is not empty",
                fix="choose another folder, or go on with what is there: --resume",
            )

    def start(self, recipe: Recipe) -> None:
        """Make the folder of a new run."""
        if not self.writes:
            return
        make_writable(self.run)
        write_whole(self.run / "recipe.toml", recipe.to_toml().encode())

    def resume(self, recipe: Recipe, splits: Splits) -> dict[str, Any]:
        """The saved state, if it is of this recipe and these images."""
        state = load_state(self.state_path)
        then = _flat(json.loads(state["recipe"]))
        now = _flat(recipe.as_dict())
        for key in sorted(then.keys() | now.keys()):
            if then.get(key) != now.get(key) and key not in MAY_CHANGE:
                raise InvalidFile(
                    f"the run in {self.output} was started with {key} = {then.get(key)!r}, "
                    f"the recipe now says {now.get(key)!r}",
                    fix="resume with the recipe it was started with, or train into another folder",
                )
        if state["images"] != _images(splits):
            raise InvalidFile(
                f"the run in {self.output} was started with other images",
                fix="resume with the same data, or train into another folder",
            )
        return state

    def save_state(self, recipe: Recipe, splits: Splits, state: Mapping[str, Any]) -> None:
        if self.writes:
            facts = {"recipe": json.dumps(recipe.as_dict()), "images": _images(splits)}
            save_state(self.state_path, {**state, **facts})

    def save_model(self, encoder: Encoder, facts: Mapping[str, Any]) -> None:
        if self.writes:
            encoder.save(self.output, card=facts)

    def write_rejected(self, rejected: Iterable[Rejection]) -> None:
        """Every image that was left out, with the reason."""
        with (self.run / "rejected.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("path", "reason"))
            writer.writerows((rejection.path, rejection.reason) for rejection in rejected)


def save_state(path: Path, state: Mapping[str, Any]) -> None:
    """Tensors and plain values only; the older file stays until the new one is on disk."""
    whole = io.BytesIO()
    torch.save({"version": VERSION, **state}, whole)
    fix = "free some space or make the folder writable, then go on with --resume"
    write_whole(path, whole.getbuffer(), fix=fix)


def load_state(path: Path) -> dict[str, Any]:
    """A state written by `save_state`; pickled code is refused."""
    try:
        with path.open("rb") as file:
            if file.read(len(ZIP)) != ZIP:  # torch's older formats are plain pickles
                raise ValueError("not a zip file")
            file.seek(0)
            state = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InvalidFile(
            f"there is nothing to resume: {path} does not exist", fix="train without --resume"
        ) from error
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        raise InvalidFile(
            f"{path} is not a readable state of a training run",
            fix="train anew without --resume; the last good model beside it is untouched",
        ) from error
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise InvalidFile(
            f"{path} was written by another version", fix="train anew without --resume"
        )
    return state


def _images(splits: Splits) -> str:
    """What the training images are called, and in which order."""
    names = "\n".join((*splits.train.ids, "", *splits.train.labels, "", *splits.val.ids))
    return hashlib.sha256(names.encode()).hexdigest()


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{above}{key}.")
        else:
            found[f"{above}{key}"] = list(value) if isinstance(value, tuple) else value
    return found
