"""What the demo found, as one value."""

import math
import shlex
from dataclasses import asdict, dataclass
from typing import Any

from surefind.demo.folder import DemoFolder
from surefind.demo.questions import Question, Tally
from surefind.demo.service import Answered
from surefind.demo.stages import StageDone
from surefind.demo.table import Row
from surefind.search.confidence.calibration import Calibration


@dataclass(frozen=True)
class DemoResult:
    """Everything that is told; the files are in the folder."""

    folder: DemoFolder
    seed: int
    precision: float  # at which queries are answered
    stages: tuple[StageDone, ...]
    rows: tuple[Row, ...]
    reading: tuple[str, ...]  # how to read the rows
    questions: tuple[Question, ...]
    tally: Tally
    calibration: Calibration
    service: Answered | None  # none where it is not installed

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    @property
    def open_page(self) -> str:
        """The command that shows the page."""
        folder = self.folder
        shown = ("--samples", str(folder.queries), "--report", str(folder.report))
        return shlex.join(("surefind", "serve", str(folder.index), *shown))

    @property
    def try_yours(self) -> str:
        return "surefind train photos/ -o model"

    def as_dict(self) -> dict[str, Any]:
        """Fit for JSON."""
        folder = self.folder
        return {
            "output": str(folder.path),
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "stages": [asdict(stage) for stage in self.stages],
            "precision": self.precision,
            "table": [_plain(asdict(row)) for row in self.rows],
            "reading": list(self.reading),
            "queries": [question.as_dict() for question in self.questions],
            "asked": asdict(self.tally),
            "service": None if self.service is None else asdict(self.service),
            "paths": {
                "model": str(folder.model),
                "baseline": str(folder.baseline),
                "index": str(folder.index),
                "report": str(folder.report / "report.html"),
                "queries": str(folder.queries),
                "vectors": str(folder.vectors),
                "vectors_model": str(folder.vectors_model),
            },
            "next": [self.open_page, self.try_yours],
        }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """A number that is none becomes null."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in values.items()
    }
