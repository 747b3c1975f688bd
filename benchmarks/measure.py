"""Interleaved timing and peak memory, shared by all benchmarks."""

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

import surefind._faiss  # noqa: F401  # before anything else loads faiss: it chooses its matrix kernels

SPREADS: dict[str, float] = {}  # of each contestant: interquartile range of its rounds to their median


def interleaved(
    contestants: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 15,
    warmup: int = 3,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median seconds of each, measured in turns so that noise of the machine hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(warmup + rounds):
        for name, run in contestants.items():
            start = clock()
            run()
            if turn >= warmup:
                times[name].append(clock() - start)
    found = {}
    for name, values in times.items():
        low, found[name], high = np.percentile(values, (25, 50, 75)).tolist()
        if rounds > 1 and found[name]:
            SPREADS[name] = max((high - low) / found[name], SPREADS.get(name, 0.0))
    return found


def peak_memory(script: str, *arguments: str) -> float:
    """MB that `script --peak ...` reports of itself, in a process of its own."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, script, "--peak", *arguments], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def grown_by(run: Callable[[], object]) -> float:
    """MB by which this process's memory grows at most while `run` runs (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from here
    before = _status("VmRSS")
    run()
    return _status("VmHWM") - before


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def write(results: Mapping[str, object], path: Path) -> None:
    """Write JSON, with what it was measured on and the spread of all interleaved rounds."""
    machine = {
        "cores": torch.get_num_threads(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "pytorch-metric-learning", "surefind")},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "spreads": SPREADS, **results}, indent=2) + "\n")
    print(f"\nwritten to {path}")


def into(document: Path, name: str, text: str) -> None:
    """Replace the text between `<!-- begin NAME -->` and `<!-- end NAME -->`."""
    before, begin, rest = document.read_text().partition(f"<!-- begin {name} -->\n")
    _, end, after = rest.partition(f"<!-- end {name} -->")
    if not begin or not end:
        sys.exit(f"{document} has no place for the table {name}")
    document.write_text(before + begin + text.strip() + "\n" + end + after)
