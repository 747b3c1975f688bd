"""A disk that fails at a chosen step, and a record of the steps that change it."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from surefind import storage

NEVER = 10**9


@contextmanager
def failing_disk(*, at: int = NEVER, code: int = errno.ENOSPC, on: bool = False) -> Iterator[list[str]]:
    """Step number `at` fails, and with `on` all that follow; the steps are listed.

    Steps are: opening a file to write to, writing, syncing a file or a folder, renaming, removing
    and making folders. A disk that stays full lets files be removed.
    """
    steps: list[str] = []

    def step(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            if name == "open" and "w" not in (given[1] if len(given) > 1 else named["mode"]):
                return real(*given, **named)
            number = len(steps)
            steps.append(name)
            removable = name == "unlink" and code == errno.ENOSPC
            if (number == at or (on and number > at)) and not removable:
                raise OSError(code, os.strerror(code))
            return real(*given, **named)

        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "_put", step("write", storage._put))
        patch.setattr(storage, "sync_folder", step("sync folder", lambda _: None))
        patch.setattr(os, "fsync", step("sync", lambda _: None))
        patch.setattr(Path, "open", step("open", Path.open))
        patch.setattr(Path, "replace", step("rename", Path.replace))
        patch.setattr(Path, "unlink", step("unlink", Path.unlink))
        patch.setattr(Path, "mkdir", step("mkdir", Path.mkdir))
        yield steps
