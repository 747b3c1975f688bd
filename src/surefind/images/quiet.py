"""Silence for Pillow's warnings while we decode, in any number of threads."""

import os
import warnings
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import Any, cast


class QuietPillow:
    """Pillow warns about content that `decode` judges itself, or that does not matter here.

    `warnings.catch_warnings` swaps the filters of the whole process, so threads that overlap
    restore them wrongly. Here the first thread in adds one filter and the last one out removes it.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._filter: object = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                warnings.filterwarnings("ignore", module=r"PIL\.")
                self._filter = warnings.filters[0]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                with suppress(ValueError):  # the caller left a catch_warnings of its own meanwhile
                    cast("list[Any]", warnings.filters).remove(self._filter)


quiet_pillow = QuietPillow()
if hasattr(os, "register_at_fork"):  # the lock may be held by a thread that a child does not have
    os.register_at_fork(after_in_child=quiet_pillow.reset)
