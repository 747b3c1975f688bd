"""A demo that is small enough for tests, and what it tells of itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from surefind.demo import DemoResult, DemoSize, run_demo
from surefind.demo.run import Stage, Tell

TINY = DemoSize(classes=48, per_class=12, foreign=20, steps=6, batch_classes=8, ladder=2)


@dataclass
class Heard:
    """What a demo told of itself while it ran."""

    events: list[tuple[str, str]] = field(default_factory=list)  # began or ended, and the title

    @contextmanager
    def watch(self, title: str) -> Iterator[Tell]:
        self.events.append(("began", title))
        yield lambda *_: None

    def ended(self, stage: Stage) -> None:
        self.events.append(("ended", stage.title))


@dataclass(frozen=True)
class Finished:
    folder: Path
    result: DemoResult
    heard: Heard

    def again(self) -> DemoResult:
        return run_demo(self.folder, size=TINY)


class Interrupting:
    """Ctrl-C in a stage, when it has told of so much."""

    def __init__(self, stage: str, part: int) -> None:
        self.stage, self.split = stage, part

    @contextmanager
    def watch(self, title: str) -> Iterator[Tell]:
        def tell(part: str, done: int, total: int) -> None:
            if title.startswith(self.stage) and done >= self.split:
                raise KeyboardInterrupt

        yield tell
