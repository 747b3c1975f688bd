"""Memory of whole training steps with the paper's batches: 25 tuples of 7 images at 224 x 224.

python benchmarks/memory.py [--steps 2] [RECIPE ...]     peak memory, seconds a step, a JSON file

Random images and random weights: neither changes what a step needs. Each recipe runs in a process
of its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import write
from PIL import Image

import surefind as sf

RECIPES = ("bayes-gauss", "bayes-vmf:densenet161.tv_in1k")  # RECIPE[:BACKBONE]
CLASSES, PER_CLASS = 20, 20
RESULTS = Path(__file__).parent / "results"


def write_pictures(folder: Path) -> None:
    random = np.random.default_rng(0)
    for number in range(CLASSES):
        (folder / f"{number:03d}").mkdir()
        for picture in range(PER_CLASS):
            pixels = random.integers(0, 255, (240, 240, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{number:03d}" / f"{picture}.jpg")


def run(recipe: str, steps: int) -> dict[str, float]:
    """In this process: peak memory in GB, seconds a step, images of the largest batch."""
    with tempfile.TemporaryDirectory() as place:
        pictures = Path(place) / "pictures"
        pictures.mkdir()
        write_pictures(pictures)
        name, _, backbone = recipe.partition(":")
        chosen = sf.Recipe.read(
            name,
            [
                "encoder.weights=none",
                *([f"encoder.backbone={backbone}"] if backbone else []),
                f"schedule.steps={steps}",
                "schedule.log_every=1",
                "loss.margin=1e4",  # every triplet violates, so that batches are full
            ],
        )
        times: list[float] = []
        sf.train(
            sf.open_dataset(pictures),
            chosen,
            Path(place) / "model",
            on_step=lambda info: times.append(time.perf_counter()) if info.triplets else None,
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"peak_gb": peak, "seconds": (times[-1] - times[0]) / max(1, len(times) - 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="*", default=RECIPES)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "memory.json")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        print(json.dumps(run(arguments.recipes[0], arguments.steps)))
        return
    found = {}
    for recipe in arguments.recipes:
        command = [sys.executable, __file__, recipe, "--here", "--steps", str(arguments.steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        found[recipe] = json.loads(done.stdout.splitlines()[-1])
        print(f"{recipe}: {found[recipe]['peak_gb']:.2f} GB, {found[recipe]['seconds']:.0f} s a step")
    write({"steps": arguments.steps, "memory": found}, arguments.output)


if __name__ == "__main__":
    main()
