"""CPU seconds of `import surefind` (beyond Python's own), `surefind --help`, and one search in vectors and in photos.

python benchmarks/startup.py [--rounds 10] [-o startup.json]     table, JSON
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from measure import write
from PIL import Image
from rich.console import Console
from rich.table import Table

import surefind as sf

RESULTS = Path(__file__).parent / "results"
SUREFIND = [sys.executable, "-m", "surefind"]
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import surefind": [sys.executable, "-c", "import surefind"],
    "surefind --help": [*SUREFIND, "--help"],
    "surefind search: one vector": [*SUREFIND, "search", "vectors.index", "asked.npz"],
    "surefind search: one photo": [*SUREFIND, "search", "photos.index", "photos/0/0.png"],
}
TARGETS = dict(zip(list(COMMANDS)[1:], (0.03, 0.3, 2.0, 4.0), strict=True))


def make_indexes(folder: Path) -> None:
    """Calibrated indexes of 40 classes of vectors and of pictures, with a small model of random weights."""
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 10)
    vectors = random.normal(size=(40, 64))[labels] + 0.3 * random.normal(size=(400, 64))
    np.savez(folder / "vectors.npz", vectors=vectors, labels=labels)
    np.savez(folder / "asked.npz", vectors=vectors[:1])
    made = [*SUREFIND, "index", "vectors.npz", "-o", "vectors.index", "--json"]
    subprocess.run(made, stdout=subprocess.DEVNULL, cwd=folder, check=True)  # noqa: S603
    pixels = random.integers(0, 256, (40, 32, 32, 3))[labels] + random.integers(-30, 30, (400, 32, 32, 3))
    for row, label in enumerate(labels):
        path = folder / "photos" / str(label) / f"{row % 10}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[row].clip(0, 255).astype(np.uint8)).save(path)
    encoder = sf.Encoder.create(sf.EncoderConfig("tiny", dim=32))
    sf.Index.create(folder / "photos.index", encoder, folder / "photos").close()


def cpu_seconds(command: list[str], folder: Path) -> float:
    """Of a process and its children, in user and in system mode, on one thread."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    single = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.DEVNULL, env=single, cwd=folder)  # noqa: S603
    assert done.returncode in (0, 3, 4), command  # verdicts
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(rounds: int) -> dict[str, float]:
    """Medians, measured in turns so that noise of the machine hits all alike."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with TemporaryDirectory() as place:
        make_indexes(Path(place))
        for turn in range(rounds + 1):
            for name, command in COMMANDS.items():
                seconds = cpu_seconds(command, Path(place))
                if turn:  # the first finds cold files
                    taken[name].append(seconds)
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "startup.json")
    arguments = parser.parse_args()
    seconds = measure(arguments.rounds)
    bare = seconds.pop("python -c pass")
    seconds["import surefind"] -= bare
    table = Table("command", "CPU seconds", "target", title="starting")
    for name, value in seconds.items():
        table.add_row(name, f"{value:.3f}", f"{TARGETS[name]:g}")
    Console().print(table)
    write({"rounds": arguments.rounds, "python": bare, "cpu_seconds": seconds, "targets": TARGETS}, arguments.output)


if __name__ == "__main__":
    main()
