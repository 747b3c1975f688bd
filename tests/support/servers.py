"""Servers for tests: in a thread of the test, or as a `surefind serve` process."""

import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any

import httpx
from noisy_vectors import noisy_vectors

import surefind as sf
from surefind.search.index import Index
from surefind.serve.server import listen, make_app, make_server
from surefind.serve.service import Settings
from surefind.serve.state import AppState

PATIENCE = 60.0  # seconds for a server to start or stop
ON_PURPOSE = "failed on purpose"  # in the message of failures that a test provokes


@dataclass(frozen=True)
class Served:
    """URL, client and state of a server in a thread."""

    url: str
    client: httpx.Client
    state: AppState


@dataclass(frozen=True)
class Running:
    """A process of `surefind serve`."""

    url: str
    client: httpx.Client
    process: "subprocess.Popen[str]"
    stderr: IO[str]

    def log(self) -> str:
        """stderr so far."""
        self.stderr.seek(0)
        return self.stderr.read()

    def memory(self) -> int:
        """Resident bytes."""
        return self._memory("VmRSS")

    def peak(self) -> int:
        """Peak resident bytes since `forget_peak`."""
        return self._memory("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(rf"{name}:\s+(\d+)", status)[1])


@contextmanager
def served(index: Index, **settings: Any) -> Iterator[Served]:
    """Serve in a thread on a free port; a logged error fails the test."""
    wanted = Settings(**{"port": 0, "reload_seconds": 0, **settings})
    state = AppState(index, wanted)
    listening = listen(wanted)
    server = make_server(make_app(state), wanted)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with _heard_failures() as failures:
        try:
            with client_of(url) as client:
                wait_until(lambda: _is_ready(client))
                yield Served(url, client, state)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            listening.close()
            assert not thread.is_alive(), "the server does not end"
    assert not failures, "\n".join(failures)


@contextmanager
def running(folder: Path, *options: object, **environment: str) -> Iterator[Running]:
    """Run `surefind serve` in a process; stopped by SIGTERM."""
    command = [sys.executable, "-m", "surefind", "serve", folder, "--port", 0, *options]
    with tempfile.TemporaryFile("w+") as stderr:
        process = subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )
        try:
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, f"no address in {line!r}"
            url = found[0].replace("0.0.0.0", "127.0.0.1")
            with client_of(url) as client:
                wait_until(lambda: _is_ready(client))
                yield Running(url, client, process, stderr)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
            process.stdout.close()


def make_vector_index(folder: Path) -> Path:
    """An index of another model's vectors, calibrated."""
    known = noisy_vectors(classes=24)
    targets = sf.CalibrationTargets(precision=0.8)
    upgrade = sf.calibrate(known.vectors, known.labels, targets=targets, learn_variance=False)
    metadata = [{"label": str(label)} for label in known.labels]
    upgrade.index(folder / "index", known.vectors, metadata=metadata).close()
    return folder / "index"


def wait_until(happened: Callable[[], bool]) -> None:
    ends = monotonic() + PATIENCE
    while not happened():
        assert monotonic() < ends, "timeout"
        sleep(0.01)


def client_of(url: str, **options: Any) -> httpx.Client:
    """A client that ignores proxy settings."""
    return httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE, **options)


@contextmanager
def _heard_failures() -> Iterator[list[str]]:
    """Errors that servers of this process log."""
    heard: list[str] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            message = logging.Formatter().format(record)
            if ON_PURPOSE not in message:
                heard.append(message)

    handler = Listening(logging.ERROR)
    loggers = [logging.getLogger(name) for name in ("surefind.serve", "uvicorn.error", "asyncio")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield heard
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False
