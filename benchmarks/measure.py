"""Interleaved timing and peak memory, shared by all benchmarks."""

import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

import torch


def interleaved(
    contestants: Mapping[str, Callable[[], object]], *, rounds: int = 15, warmup: int = 3
) -> dict[str, float]:
    """Median seconds of each, measured in turns so that noise of the machine hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(warmup + rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            if turn >= warmup:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def peak_memory(script: str, *arguments: str) -> float:
    """MB that `script --peak ...` reports of itself, in a process of its own."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, script, "--peak", *arguments], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def grown_by(run: Callable[[], object]) -> float:
    """MB by which the peak of this process's memory grows while `run` runs."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def write(results: Mapping[str, object], path: Path) -> None:
    """JSON with what it was measured on."""
    machine = {
        "cores": torch.get_num_threads(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "pytorch-metric-learning", "surefind")},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, **results}, indent=2) + "\n")
    print(f"\nwritten to {path}")
