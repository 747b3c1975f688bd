"""The stages of the demo: numbered, watched, timed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from time import perf_counter

NAMES = (
    "drawing glyphs",
    "training the Bayesian encoder",
    "training the triplet baseline",
    "indexing glyphs of new classes",
    "calibrating",
    "evaluating, writing the report",
    "upgrading the baseline's vectors, as if they were yours",
    "asking three queries",
    "asking the service",
)

Tell = Callable[[str, int, int], None]  # which part of the stage, how much of it, out of how much
Watch = Callable[[str], AbstractContextManager[Tell]]  # shows a stage while it runs


@dataclass(frozen=True)
class StageDone:
    """One stage, after it."""

    number: int
    name: str
    figure: str  # the main thing it found
    seconds: float
    reused: bool  # from an earlier run

    @property
    def title(self) -> str:
        return title(self.number)


@dataclass
class Working:
    """A stage while it runs; it says what it found."""

    tell: Tell
    figure: str = ""
    reused: bool = False


def title(number: int) -> str:
    """As it is shown.

    >>> title(5)
    '5/9 calibrating'
    """
    return f"{number}/{len(NAMES)} {NAMES[number - 1]}"


@contextmanager
def unwatched(_: str) -> Iterator[Tell]:
    yield lambda *_: None


class Stages:
    """Hands out the stages one after the other, and remembers them."""

    def __init__(self, watch: Watch = unwatched, ended: Callable[[StageDone], None] | None = None):
        self.watch, self.ended = watch, ended
        self.done: list[StageDone] = []

    @contextmanager
    def next(self) -> Iterator[Working]:
        number, began = len(self.done) + 1, perf_counter()
        with self.watch(title(number)) as tell:
            working = Working(tell)
            yield working
        seconds = round(perf_counter() - began, 3)
        done = StageDone(number, NAMES[number - 1], working.figure, seconds, working.reused)
        self.done.append(done)
        if self.ended is not None:
            self.ended(done)
