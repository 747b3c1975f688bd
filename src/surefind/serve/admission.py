"""How many questions are worked on at a time; further ones are told when to come back."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from surefind.serve.guards.refused import Refused

LONGEST_PAUSE = 30  # seconds that a client is asked to stay away
WEIGHT = 0.1  # of the latest answer in the usual time between answers


class Admission:
    """Places for questions. Used by the event loop alone, so that it needs no lock."""

    def __init__(self, places: int) -> None:
        self.places, self.taken = places, 0
        self._between = 0.1  # seconds from one answer to the next
        self._last: float | None = None

    def check(self) -> None:
        """Refuse now what would be refused after its body was read."""
        if self.taken >= self.places:
            raise self.busy()

    @contextmanager
    def place(self) -> Iterator[None]:
        self.check()
        self.taken += 1
        try:
            yield
            self._learn()
        finally:
            self.taken -= 1
            if not self.taken:
                self._last = None  # idle time says nothing about the work

    def busy(self) -> Refused:
        return self._later(f"all {self.places} places are taken")

    def late(self, seconds: float) -> Refused:
        return self._later(f"there was no answer within {seconds:g} seconds")

    def _later(self, problem: str) -> Refused:
        wait = min(LONGEST_PAUSE, max(1, math.ceil(self.taken * self._between)))
        return Refused(
            503,
            problem,
            fix="ask again after the seconds that Retry-After names",
            retry_after=wait,
        )

    def _learn(self) -> None:
        now = perf_counter()
        if self._last is not None:
            self._between += WEIGHT * (now - self._last - self._between)
        self._last = now
