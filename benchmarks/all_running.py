"""One benchmark in a process of its own, and what is kept of it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from all_machine import busy, code, versions
from all_parts import Part
from all_rows import Result

from surefind.files import write_whole

PATIENCE = 60.0  # seconds to end politely: a service has others to end as well


@dataclass(frozen=True)
class Record:
    """What became of one benchmark; a file beside its log."""

    state: str  # done, failed, missing
    reason: str = ""
    words: tuple[str, ...] = ()  # of its command line
    code: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    began: str = ""
    seconds: float = 0.0
    others: float | None = None  # cores that were busy with something else
    result: Result | None = None

    def holds(self, words: Sequence[str]) -> bool:
        """Was it measured by this code, with these packages, in this size?"""
        same = (tuple(words), code(), packages()) == (self.words, self.code, self.versions)
        return self.state == "done" and same


def run(part: Part, words: Sequence[str], *, folder: Path, limit: float) -> Record:
    """Keeps log, figures and record in the folder; a failure is told, not raised."""
    figures = folder / f"{part.name}.figures.json"
    figures.unlink(missing_ok=True)
    began, start, before = datetime.now(UTC), time.perf_counter(), busy()
    reason = run_logged(
        [str(part.script), *words, "-o", str(figures)], folder / f"{part.name}.log", limit
    )
    seconds, after = time.perf_counter() - start, busy()
    result = None
    if not reason:
        try:
            result = json.loads(figures.read_text())
        except (OSError, ValueError) as error:
            reason = f"its figures cannot be read: {type(error).__name__}"
    record = Record(
        state="failed" if reason else "done",
        reason=reason,
        words=tuple(words),
        code=code(),
        versions=packages(),
        began=began.isoformat(timespec="seconds"),
        seconds=seconds,
        others=None if before is None or after is None else max(0.0, (after - before) / seconds),
        result=result,
    )
    write_whole(folder / f"{part.name}.json", json.dumps(asdict(record), indent=1).encode())
    return record


def kept(part: Part, words: Sequence[str], *, folder: Path) -> Record | None:
    """Of an earlier run, if nothing has changed since."""
    try:
        told = json.loads((folder / f"{part.name}.json").read_text())
        pairs = tuple((name, number) for name, number in told["versions"])
        record = Record(**told | {"words": tuple(told["words"]), "versions": pairs})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return record if record.holds(words) else None


def packages() -> tuple[tuple[str, str], ...]:
    return tuple(versions().items())


def run_logged(command: Sequence[str], log: Path, limit: float) -> str:
    """Why it failed, or nothing. In a session of its own, so that Ctrl-C reaches us alone."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with (
        log.open("w") as lines,
        subprocess.Popen(  # noqa: S603
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=lines,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        ) as process,
    ):
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            _end(process)
            return f"not ready after {limit / 60:g} minutes"
        except BaseException:
            _end(process)
            raise
    return "" if status == 0 else _last_line(log) or f"ended with status {status}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """And all that it has started."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        os.killpg(process.pid, signal.SIGKILL)


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")
