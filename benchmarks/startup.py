"""CPU seconds that a command takes to start, beyond those of Python itself.

python benchmarks/startup.py [--rounds 10] [-o startup.json]     table, JSON
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from measure import write
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
SUREFIND = str(Path(sys.executable).with_name("surefind"))
BARE = "python -c pass"
COMMANDS = {
    BARE: [sys.executable, "-c", "pass"],
    "import surefind": [sys.executable, "-c", "import surefind"],
    "surefind --version": [SUREFIND, "--version"],
    "surefind --help": [SUREFIND, "--help"],
    "surefind search --help": [SUREFIND, "search", "--help"],
    "surefind doctor": [SUREFIND, "doctor"],
}


def cpu_seconds(command: list[str]) -> float:
    """Of a process and its children, in user and in system mode, on one thread."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    single = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(command, stdout=subprocess.DEVNULL, env=single, check=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(rounds: int) -> dict[str, float]:
    """Medians, measured in turns so that noise of the machine hits all alike."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(rounds + 1):
        for name, command in COMMANDS.items():
            seconds = cpu_seconds(command)
            if turn:  # the first finds cold files
                taken[name].append(seconds)
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "startup.json")
    arguments = parser.parse_args()
    seconds = measure(arguments.rounds)
    beyond = {name: value - seconds[BARE] for name, value in seconds.items() if name != BARE}
    table = Table("command", "CPU seconds", "beyond Python", title="starting")
    for name, value in seconds.items():
        more = f"{beyond[name]:.3f}" if name in beyond else ""
        table.add_row(name, f"{value:.3f}", more)
    Console().print(table)
    found = {"rounds": arguments.rounds, "cpu_seconds": seconds, "beyond_python": beyond}
    write(found, arguments.output)


if __name__ == "__main__":
    main()
