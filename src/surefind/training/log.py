"""What happened at each step, as a CSV anyone can open and, where installed, for TensorBoard."""

import csv
import logging
from pathlib import Path
from typing import Any, NamedTuple, TextIO

log = logging.getLogger("surefind")


class StepInfo(NamedTuple):
    """One line of the log; NaN where nothing was measured."""

    step: int
    loss: float
    win_rate: float
    median_std: float
    triplets: int
    gradient: float
    lr: float
    seconds: float  # since the start of this process
    recall: float  # R@1 on the validation classes
    map_at_r: float  # on the validation classes
    variance_auroc: float  # of wrong first hits, on the validation classes


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
        self.board = _tensorboard(folder, after)

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
    with path.open(newline="") as file:
        return [
            StepInfo(
                *(
                    kind(value)
                    for kind, value in zip(StepInfo.__annotations__.values(), row, strict=True)
                )
            )
            for row in list(csv.reader(file))[1:]
            if len(row) == len(StepInfo._fields)
        ]


def _tensorboard(folder: Path, after: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        log.debug("no TensorBoard log: pip install tensorboard")
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=after + 1)
