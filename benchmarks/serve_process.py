"""`surefind serve` in a process of its own, as a user starts it."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PATIENCE = 60.0  # seconds for it to end
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Serving(NamedTuple):
    """A service on this machine."""

    port: int
    process: int

    def memory(self) -> float:
        """MB that it holds (Linux)."""
        status = Path(f"/proc/{self.process}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        assert found is not None
        return int(found[1]) / 1024

    def cpu(self) -> float:
        """Seconds of all cores that it has used (Linux)."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(index: Path, *options: object, threads: int | None = None) -> Iterator[Serving]:
    """Ended politely with the block; all cores are its own unless `threads` says how many."""
    command = [sys.executable, "-m", "surefind", "serve", index, "--port", 0, *options]
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    if threads is not None:
        environment |= dict.fromkeys(THREADS, str(threads))
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(  # noqa: S603
            [str(word) for word in command], stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as process,
    ):
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+:(\d+)", process.stdout.readline())
            if found is None:
                process.wait(PATIENCE)
                log.seek(0)
                sys.exit(f"the service does not start:\n{log.read()}")
            yield Serving(int(found[1]), process.pid)
        finally:
            process.terminate()
            process.wait(PATIENCE)
