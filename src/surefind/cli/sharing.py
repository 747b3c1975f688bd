"""Work that the processes of torchrun share: if it fails in one, it has failed in all."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist
import typer

from surefind.distributed import ProcessGroup
from surefind.errors import SurefindError

PATIENCE = timedelta(days=7)  # shares take unequal time

T = TypeVar("T")


class Together:
    """The processes of a world as one; alone, it only does the work."""

    def __init__(self, world: ProcessGroup) -> None:
        self.world = world
        self._group = dist.new_group(timeout=PATIENCE) if world.size > 1 else None

    def attempt(self, work: Callable[[], T]) -> T:
        """Every process does its own work; an error of one is an error of all.

        It is raised by the first process, the others end without a word.
        """
        if self.world.size == 1:
            return work()
        made: list[T] = []
        failed: tuple[str, str | None] | None = None
        try:
            made.append(work())
        except SurefindError as error:
            failed = error.problem, error.fix
        for failure in self.gather(failed):
            if failure is not None:
                if not self.world.is_main:
                    raise typer.Exit(1)
                problem, fix = failure
                raise SurefindError(problem, fix=fix)
        return made[0]

    def first(self, work: Callable[[], T]) -> T:
        """The same work in every process, but the others begin when the first has done it."""
        if self.world.is_main:
            made = self.attempt(work)
            return self.attempt(lambda: made)
        self.attempt(lambda: None)
        return self.attempt(work)

    def gather(self, ours: T) -> list[T]:
        """What every process has, in the order of their ranks."""
        if self.world.size == 1:
            return [ours]
        received: list[Any] = [None] * self.world.size
        try:
            dist.all_gather_object(received, ours, group=self._group)
        except RuntimeError as error:  # gloo, when a peer has gone
            raise SurefindError(
                "another process of this run ended early",
                fix="see what it said, and run the same command again: what was added is kept",
            ) from error
        return received
