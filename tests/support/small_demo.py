"""A demo that is small enough for tests, and ways to watch and to interrupt it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from surefind.demo import DemoResult, DemoSize, Progress, Stage

TINY = DemoSize(classes=48, per_class=12, foreign=20, steps=6, batch_classes=8, ladder=2)


@dataclass
class Heard:
    """The stages that a demo reported while it ran."""

    events: list[tuple[str, str]] = field(default_factory=list)  # began or ended, and the title

    @contextmanager
    def watch(self, stage: Stage) -> Iterator[Progress]:
        self.events.append(("began", stage.title))
        yield lambda *_: None
        self.events.append(("ended", stage.title))


@dataclass(frozen=True)
class Finished:
    folder: Path
    result: DemoResult
    heard: Heard


class Interrupting:
    """Raise KeyboardInterrupt in a stage, at a given progress."""

    def __init__(self, stage: str, step: int) -> None:
        self.stage, self.step = stage, step

    @contextmanager
    def watch(self, stage: Stage) -> Iterator[Progress]:
        def progress(part: str, done: int, total: int) -> None:
            if stage.title.startswith(self.stage) and done >= self.step:
                raise KeyboardInterrupt

        yield progress
