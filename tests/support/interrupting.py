"""A command in a process of its own that is interrupted, as by Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

SUREFIND = Path(sys.executable).with_name("surefind")
PATIENCE = 120  # seconds
BEGUN = "from surefind.cli.main import main; import os; os.write(2, b'\\n'); main()"


class Ended(NamedTuple):
    code: int
    said: str  # on stderr


def start(
    arguments: Sequence[str], cwd: Path, *, command: Sequence[str | Path] = (SUREFIND,)
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*command, *arguments],
        cwd=cwd,
        stdin=subprocess.PIPE,  # which stays empty and open
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def run(arguments: Sequence[str], cwd: Path) -> Ended:
    """To its end."""
    child = start(arguments, cwd)
    said = child.communicate(timeout=PATIENCE)[1]
    return Ended(child.returncode, said)


def interrupted_when(line: str, arguments: Sequence[str], cwd: Path) -> Ended:
    """As soon as it says a line that begins so."""
    child = start(arguments, cwd)
    heard = []
    for said in child.stderr:
        heard.append(said)
        if said.startswith(line):
            child.send_signal(signal.SIGINT)
            break
    heard.append(child.communicate(timeout=PATIENCE)[1])
    return Ended(child.returncode, "".join(heard))


def interrupted_after(seconds: float, arguments: Sequence[str], cwd: Path) -> Ended:
    """So long after the command begins: before, Ctrl-C is Python's own affair."""
    child = start(arguments, cwd, command=(sys.executable, "-c", BEGUN))
    child.stderr.readline()
    time.sleep(seconds)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=PATIENCE)[1]
    return Ended(child.returncode, said)
