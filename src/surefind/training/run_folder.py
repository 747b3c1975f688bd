"""Run folder: the model, its recipe, log and checkpoint."""

import csv
import hashlib
import io
import json
import logging
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import torch

from surefind.datasets.splits import Splits
from surefind.errors import InvalidFile
from surefind.storage import make_writable, write_whole
from surefind.training.recipe import Recipe

VERSION = 1
NAN = float("nan")
MAY_CHANGE = ("schedule.steps", "schedule.patience", "data.workers", "data.max_bad_share")


class StepInfo(NamedTuple):
    """One line of the log; NaN for what was not measured."""

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
    """Append to `log.csv`; rows that a killed run wrote after its last checkpoint are dropped."""

    def __init__(self, folder: Path, *, after: int) -> None:
        self.path = folder / "log.csv"
        kept = [] if after == 0 else [row for row in read_log(self.path) if row.step <= after]
        self.file: TextIO = self.path.open("w", newline="")
        csv.writer(self.file).writerows([StepInfo._fields, *kept])
        self.file.flush()
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
        """Raise InvalidFile if the folder holds more than a run without a checkpoint."""
        if not (self.is_main and self.output.is_dir()):
            return
        inside = {entry.name for entry in self.output.iterdir()}
        if inside - {self.run.name} or self.state_path.exists():
            raise InvalidFile(
                f"{self.output} is not empty", fix="choose another folder, or continue the run in it with --resume"
            )

    def start(self, recipe: Recipe) -> None:
        """Create the folder of a new run."""
        if self.is_main:
            make_writable(self.run)
            write_whole(self.run / "recipe.toml", recipe.to_toml().encode())

    def resume(self, recipe: Recipe, splits: Splits) -> dict[str, Any]:
        """Load the checkpoint; raise InvalidFile if its recipe or images differ."""
        state = load_state(self.state_path)
        then, now = _flat(state["recipe"]), _flat(json.dumps(recipe.as_dict()))
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


def save_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write a checkpoint of tensors and plain values; the older one stays until that is done."""
    whole = io.BytesIO()
    torch.save({"version": VERSION, **state}, whole)
    write_whole(path, whole.getbuffer(), fix="free some space or make the folder writable, then use --resume")


def load_state(path: Path) -> dict[str, Any]:
    """Read a checkpoint of `save_state`; pickled code is refused."""
    try:
        with path.open("rb") as file:
            if file.read(4) != b"PK\x03\x04":  # no zip file: torch's older formats are plain pickles
                raise ValueError("not a zip file")
            file.seek(0)
            state = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InvalidFile(f"nothing to resume: {path} does not exist") from error
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        raise InvalidFile(
            f"{path} is not a readable checkpoint", fix="train again without --resume; the saved model is not affected"
        ) from error
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise InvalidFile(f"{path} is a checkpoint of another version of surefind")
    return state


def _images(splits: Splits) -> str:
    """Hash the ids and labels of the training images, in their order."""
    names = "\n".join((*splits.train.ids, "", *splits.train.labels, "", *splits.val.ids))
    return hashlib.sha256(names.encode()).hexdigest()


def _flat(recipe: str) -> dict[str, Any]:
    """Values of a recipe in JSON, by `table.key`."""
    values = json.loads(recipe)
    parts = {f"{table}.{key}": value for table in values.keys() - {"seed"} for key, value in values[table].items()}
    return {"seed": values["seed"], **parts}
