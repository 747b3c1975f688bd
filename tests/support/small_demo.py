"""A demo that is small enough for tests, and the progress it reports."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from surefind.demo import DemoResult, DemoSize
from surefind.demo.run import Progress, Stage, Watch

TINY = DemoSize(classes=48, per_class=12, foreign=20, steps=6, batch_classes=8, ladder=2)


@dataclass
class Reported:
    """Stages that began and ended."""

    events: list[tuple[str, str]] = field(default_factory=list)  # began or ended, and the title

    @contextmanager
    def watch(self, title: str) -> Iterator[Progress]:
        self.events.append(("began", title))
        yield lambda *_: None

    def ended(self, stage: Stage) -> None:
        self.events.append(("ended", stage.title))


@dataclass(frozen=True)
class Finished:
    folder: Path
    result: DemoResult
    reported: Reported


def interrupting(stage: str, at: int) -> Watch:
    """Press Ctrl-C in a stage, at that much progress."""

    @contextmanager
    def watch(title: str) -> Iterator[Progress]:
        def progress(part: str, done: int, total: int) -> None:
            if title.startswith(stage) and done >= at:
                raise KeyboardInterrupt

        yield progress

    return watch
