"""Folder of a training run: the model, and beside it recipe, log and the state to resume."""

import csv
import hashlib
import io
import json
import logging
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import torch

from surefind.datasets.splits import Splits
from surefind.encoders.encoder import Encoder
from surefind.errors import InvalidFile
from surefind.images.loader import Rejection
from surefind.storage import make_writable, write_whole
from surefind.training.recipe import Recipe

VERSION = 1
ZIP = b"PK\x03\x04"  # how a file of torch.save begins
NAN = float("nan")
MAY_CHANGE = ("schedule.steps", "schedule.patience", "data.workers", "data.max_bad_share")


class StepInfo(NamedTuple):
    """One line of the log; NaN where nothing was measured."""

    step: int
    loss: float = NAN
    win_rate: float = NAN
    median_std: float = NAN
    triplets: int = 0
    gradient: float = NAN
    lr: float = NAN
    seconds: float = NAN  # since the start of this process
    recall: float = NAN  # R@1 on the validation classes
    map_at_r: float = NAN  # on the validation classes
    variance_auroc: float = NAN  # of wrong first hits, on the validation classes


class RunLog:
    """Appends to `log.csv`; what a killed run wrote after its last checkpoint is dropped."""

    def __init__(self, folder: Path, *, after: int) -> None:
        self.path = folder / "log.csv"
        kept = [] if after == 0 else [row for row in read_log(self.path) if row.step <= after]
        with self.path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(StepInfo._fields)
            writer.writerows(kept)
        self.file: TextIO = self.path.open("a", newline="")
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            logging.getLogger("surefind").debug("no TensorBoard log: pip install tensorboard")
            self.board: Any = None
        else:
            self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=after + 1)

    def write(self, info: StepInfo) -> None:
        csv.writer(self.file).writerow(info)
        self.file.flush()
        if self.board is not None:
            for name, value in info._asdict().items():
                if name not in ("step", "triplets", "seconds") and value == value:
                    self.board.add_scalar(name, value, info.step)

    def close(self) -> None:
        self.file.close()
        if self.board is not None:
            self.board.close()


def read_log(path: Path) -> list[StepInfo]:
    if not path.exists():
        return []
    kinds = StepInfo.__annotations__.values()
    with path.open(newline="") as file:
        rows = [row for row in list(csv.reader(file))[1:] if len(row) == len(StepInfo._fields)]
    return [StepInfo(*(kind(v) for kind, v in zip(kinds, row, strict=True))) for row in rows]


class RunFolder:
    """`output` holds the best model; `output/run` the recipe, the log and the state to resume."""

    def __init__(self, output: Path, *, is_main: bool = True) -> None:
        self.output, self.is_main = output, is_main
        self.run = output / "run"
        self.state_path = self.run / "state.pt"

    def check_free(self) -> None:
        """Refuse a folder that holds anything but a run that never came to its first state."""
        if not (self.is_main and self.output.is_dir()):
            return
        inside = {entry.name for entry in self.output.iterdir()}
        if inside - {self.run.name} or self.state_path.exists():
            raise InvalidFile(
                f"{self.output} is not empty",
                fix="choose another folder, or go on with what is there: --resume",
            )

    def start(self, recipe: Recipe) -> None:
        """Make the folder of a new run."""
        if self.is_main:
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
                    f"the recipe now says {now.get(key)!r}"
                )
        if state["images"] != _images(splits):
            raise InvalidFile(f"the run in {self.output} was started with other images")
        return state

    def save_state(self, recipe: Recipe, splits: Splits, state: Mapping[str, Any]) -> None:
        if self.is_main:
            facts = {"recipe": json.dumps(recipe.as_dict()), "images": _images(splits)}
            save_state(self.state_path, {**state, **facts})

    def save_model(self, encoder: Encoder, facts: Mapping[str, Any]) -> None:
        if self.is_main:
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
