"""Run every benchmark, write one table of their results and targets, and compare with the last run.

python benchmarks/all.py [--quick] [--only NAME ...] [--data DATA] [-o docs/benchmarks.md]

Each runs in a process of its own; what fails is a row that says why. With --only, the figures of
the others are those of the last run. A run is appended to benchmarks/history.jsonl.
"""

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from math import hypot, isnan
from pathlib import Path
from typing import Any, NamedTuple

from targets import BENCHMARKS, Benchmark, Row, met

from surefind.storage import write_whole

HERE = Path(__file__).parent
ROOT = HERE.parent
UNKNOWN_NOISE = 0.1  # of a row whose rounds were not timed in turns
LEAST_NOISE = 0.05  # between runs, relative
LOAD = 0.5  # above which a machine is not quiet
DASH = "\N{EN DASH}"
UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
PACKAGES = ("surefind", "torch", "numpy", "faiss-cpu", "onnxruntime", "pytorch-metric-learning", "timm")
NOTES = """
A row is *slower* (or otherwise worse) if it differs from the last run on this machine by more than the
interquartile ranges of both runs' rounds, at least 5 %. What is compared in a row was measured side by
side, in turns: trust ratios more than times.

`$DATA` is a folder of photos and weights that is not part of the repository (`--data`,
`SUREFIND_DATA`), `$KEEP` one for embeddings and exports, `$DEMO` what `surefind demo` has written.
The paper's tables and confidence on photos take hours: [results](results.md).
"""
PLACES = {"$DATA": "data", "$KEEP": "keep", "$DEMO": "demo"}  # words of a command: options


class Recorded(dict[str, Any]):
    """A JSON object that remembers in `read` which of its keys were asked for."""

    read: set[str] = set()  # noqa: RUF012  (common to all objects of a file)

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)


class Figure(NamedTuple):
    """A row with its figure, or why there is none."""

    row: Row
    value: float | None
    problem: str = ""
    peer: str = ""
    noise: float = UNKNOWN_NOISE

    @property
    def met(self) -> bool | None:
        return None if self.value is None else met(self.value, self.row.target)

    def is_worse(self, value: float, noise: float) -> bool:
        """Whether it is worse than an earlier value by more than the noise of both."""
        if self.value is None or not self.row.target or not value:
            return False
        change = (self.value - value) / abs(value) * (-1 if self.row.target[0] == "≥" else 1)
        return change > max(LEAST_NOISE, hypot(self.noise, noise))


def figures_of(benchmark: Benchmark, text: str, problem: str = "") -> list[Figure]:
    """Return the figure of each row, from the JSON text that the benchmark wrote."""
    try:
        result = json.loads(text, object_hook=Recorded)
        spreads = dict(result.get("spreads", {}))
    except (ValueError, AttributeError) as error:
        problem = f"its figures cannot be read: {error}"
    if problem:
        return [Figure(row, None, problem) for row in benchmark.rows]
    found = []
    for row in benchmark.rows:
        Recorded.read.clear()
        try:
            value, peer = float(row.value(result)), row.peer if isinstance(row.peer, str) else row.peer(result)
        except UNREADABLE as error:
            found.append(Figure(row, None, f"no such figure: {type(error).__name__} {error}"))
            continue
        if isnan(value):
            found.append(Figure(row, None, "not a number"))
            continue
        noises = [spreads[name] for name in Recorded.read if name in spreads]
        found.append(Figure(row, value, "", peer, hypot(*noises) if noises else UNKNOWN_NOISE))
    return found


def run(benchmark: Benchmark, words: Sequence[str], output: Path, limit: float) -> str:
    """Run a benchmark, which writes its figures to `output`; return why it failed, or nothing."""
    output.unlink(missing_ok=True)
    log = output.with_suffix(".log")
    command = [sys.executable, str(benchmark.script), *words, "-o", str(output)]
    with (
        log.open("w") as lines,
        subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=lines,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        ) as process,
    ):
        try:
            status = process.wait(60 * limit)
        except BaseException as error:  # Ctrl-C too: it and all that it has started shall end
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return f"not ready after {limit:g} minutes"
            raise
    last = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()][-1:]
    return "" if status == 0 else without_places(last[0] if last else f"ended with status {status}")


def without_places(text: str) -> str:
    """Remove the folders of this machine.

    >>> without_places("no data: /home/me/photos/birds is missing")
    'no data: birds is missing'
    """
    return re.sub(r"(?<![\w$:.])(?:/[\w.+@-]+)+/([\w.+@-]+)", r"\1", text).replace("|", "\\|")


def machine() -> str:
    """Return processor, cores and memory; nothing that names the machine itself."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", info.read_text()) if info.is_file() else None
    name = found[1].strip() if found else platform.processor() or platform.machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{name}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GB of memory, {platform.system()}"


def commit() -> str:
    """Return the commit, and whether the code differs from it; empty outside a repository."""
    git = shutil.which("git") or "git"

    def asked(*words: str) -> str:
        done = subprocess.run([git, *words], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
        return done.stdout.strip()

    changed = asked("status", "--porcelain", "--", "src", "benchmarks")
    return asked("rev-parse", "--short", "HEAD") + (", with changes" if changed else "")


def last_values(history: Path, about: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return value and noise of each row, from the last run that had it on such a machine."""
    found: dict[str, tuple[float, float]] = {}
    for line in history.read_text().splitlines() if history.is_file() else ():
        entry = json.loads(line)
        if (entry["machine"], entry["size"]) == (about["machine"], about["size"]):
            found |= {what: (value, noise) for what, (value, noise) in entry["rows"].items()}
    return found


def key(benchmark: Benchmark, figure: Figure) -> str:
    return f"{benchmark.name}: {figure.row.what}"


def page(
    about: Mapping[str, Any], found: Sequence[tuple[Benchmark, list[Figure]]], before: Mapping[str, tuple[float, float]]
) -> str:
    """Return the table in Markdown."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    quick = "**A quick run**, to see that all of it works: nothing is judged. " if about["size"] == "quick" else ""
    lines = ["# Benchmarks", "", f"{quick}Made by `make bench`, which is `python benchmarks/all.py`.", ""]
    lines.append(f"- **When**: {about['date']} UTC, {about['minutes']:.0f} minutes, commit {about['commit']}.")
    lines.append(f"- **With**: Python {platform.python_version()}, {versions}.")
    lines.append(f"- **On**: {about['machine']}; load average {about['load']:.2f} before the first.")
    if about["only"]:
        lines.append(f"- **Measured in this run**: {', '.join(about['only'])}; the others in earlier ones.")
    if about["load"] > LOAD:
        lines += ["", "> **The machine was not idle** at the start: figures may be off."]
    lines += ["", "| what | figure | last run | target | met | beside it |", "|---|---|---|---|---|---|"]
    for group, some in groupby(found, key=lambda pair: pair[0].group):
        lines.append(f"| **{group}** | | | | | |")
        for benchmark, figures in some:
            for figure in figures:
                last, row = before.get(key(benchmark, figure)), figure.row
                shown = f"failed: {without_places(figure.problem)}" if figure.value is None else row.show(figure.value)
                then = row.show(last[0]) + (" **worse**" if figure.is_worse(*last) else "") if last else ""
                judged = {True: "yes", False: "**no**", None: ""}[None if quick else figure.met]
                cells = (row.what, shown, then, row.target, judged, figure.peer)
                lines.append(f"| {' | '.join(cell or DASH for cell in cells)} |")
    missed = [figure.row for _, figures in found for figure in figures if figure.met is False and not quick]
    if reasons := [f"- {row.what}: {row.why}" for row in missed if row.why]:
        lines += ["", "**Why targets are missed**", "", *reasons]
    lines += [NOTES, "| benchmark | command |", "|---|---|"]
    for benchmark, _ in found:
        words = benchmark.quick if quick else benchmark.words
        lines.append(f"| {benchmark.name} | `{f'python benchmarks/{benchmark.script.name} {words}'.strip()}` |")
    return "\n".join(lines) + "\n"


def main(words: Sequence[str] | None = None, *, benchmarks: Sequence[Benchmark] = BENCHMARKS) -> int:
    """Return 0, or 1 if a benchmark failed; a missed target is no failure."""
    options = parse(words, benchmarks)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    size = "quick" if options.quick else "usual"
    folder = options.results / size
    folder.mkdir(parents=True, exist_ok=True)
    options.demo, start = folder / "demo-folder", time.perf_counter()
    about: dict[str, Any] = {"commit": commit(), "machine": machine(), "size": size, "load": os.getloadavg()[0]}
    about["only"] = options.only or []
    before, found = last_values(options.history, about), []
    chosen = [benchmark for benchmark in benchmarks if not options.only or benchmark.name in options.only]
    for benchmark in benchmarks:
        output, problem = folder / f"{benchmark.name}.json", ""
        if benchmark in chosen:
            left = sum(each.minutes for each in chosen[chosen.index(benchmark) :])
            print(f"{benchmark.name} … at most about {left:.0f} min left", flush=True)
            given = (benchmark.quick if options.quick else benchmark.words).split()
            filled = [
                re.sub(r"\$[A-Z]+", lambda place: str(getattr(options, PLACES[place[0]])), word) for word in given
            ]
            problem = run(benchmark, filled, output, options.limit)
            print(f"    {problem or 'done'}", flush=True)
        if not problem and not output.is_file():
            problem = "no figures"
        found.append((benchmark, figures_of(benchmark, "{}" if problem else output.read_text(), problem)))
    about |= {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}", "minutes": (time.perf_counter() - start) / 60}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_whole(options.output, page(about, found, before).encode())
    measured = {
        key(b, f): (f.value, f.noise) for b, figures in found for f in figures if f.value is not None and b in chosen
    }
    with options.history.open("a") as history:
        history.write(json.dumps(about | {"rows": measured}) + "\n")
    every = [figure for _, figures in found for figure in figures]
    worse = [
        name for b, figures in found for f in figures if (name := key(b, f)) in before and f.is_worse(*before[name])
    ]
    counts = {what: sum(figure.met is what for figure in every) for what in (True, False)}
    failed = sum(figure.value is None for figure in every)
    print(f"\n{options.output}: {counts[True]} targets met, {counts[False]} missed, {failed} rows failed")
    for name in worse:
        print(f"worse than the last run: {name}")
    return int(failed > 0)


def parse(words: Sequence[str] | None, benchmarks: Sequence[Benchmark]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that all runs; nothing is judged")
    names = [benchmark.name for benchmark in benchmarks]
    parser.add_argument("--only", nargs="+", choices=names, help="others are shown as they were measured last")
    data = os.environ.get("SUREFIND_DATA", "data")
    parser.add_argument("--data", type=Path, default=Path(data), help="photos and weights")
    parser.add_argument("--keep", type=Path, default=Path(".cache/embeddings"), help="embeddings and exports")
    parser.add_argument("--limit", type=float, default=30, help="minutes for each benchmark")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--history", type=Path, help="benchmarks/history.jsonl, unless --quick")
    parser.add_argument("-o", "--output", type=Path, help="docs/benchmarks.md, unless --quick")
    options = parser.parse_args(words)
    aside = options.results / "quick"
    options.output = options.output or (aside / "benchmarks.md" if options.quick else ROOT / "docs" / "benchmarks.md")
    options.history = options.history or (aside if options.quick else HERE) / "history.jsonl"
    return options


if __name__ == "__main__":
    sys.exit(main())
