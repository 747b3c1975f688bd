"""Child processes that start quickly: forked from one that has imported what they need."""

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["surefind.engines.embedded.engine", "torch"])


def start(work: Callable[..., None], *given: Any) -> tuple[BaseProcess, Connection]:
    """A child that runs `work(*given, pipe)`, and our end of the pipe."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # many children, few cores
    ours, theirs = CONTEXT.Pipe()
    child = CONTEXT.Process(target=work, args=(*given, theirs), daemon=True)
    child.start()
    theirs.close()
    return child, ours


def received(pipe: Connection) -> list[Any]:
    """Return all that a child sends until it ends."""
    sent = []
    try:
        while True:
            sent.append(pipe.recv())
    except (EOFError, ConnectionResetError):
        return sent
    finally:
        pipe.close()
