"""A demo that is small enough for tests, and the progress it reports."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from surefind.demo import DemoResult, DemoSize, run_demo
from surefind.demo.run import Progress, Stage, Watch

TINY = DemoSize(classes=48, per_class=12, foreign=20, steps=6, batch_classes=8, ladder=2)


class Finished(NamedTuple):
    """A demo, and its stages as they were reported: began or ended, and the title."""

    folder: Path
    result: DemoResult
    events: list[tuple[str, str]]


def run_tiny(folder: Path) -> Finished:
    """Run the demo and record its progress."""
    events: list[tuple[str, str]] = []

    @contextmanager
    def watch(title: str, seconds: float) -> Iterator[Progress]:
        assert seconds > 0
        events.append(("began", title))
        yield lambda *_: None

    def ended(stage: Stage) -> None:
        events.append(("ended", stage.title))

    return Finished(folder, run_demo(folder, size=TINY, watch=watch, ended=ended), events)


def interrupting(stage: str, at: int) -> Watch:
    """Press Ctrl-C in a stage, at that much progress."""

    @contextmanager
    def watch(title: str, seconds: float) -> Iterator[Progress]:
        def progress(part: str, done: int, total: int) -> None:
            if title.startswith(stage) and done >= at:
                raise KeyboardInterrupt

        yield progress

    return watch
