"""What trained encoders know about the glyphs: are they right, and do they know when not?

    python examples/glyphs.py MODEL [MODEL ...] [--picture surest.png]

The test classes were never trained on. Each image has a known corruption from 0 to 1, which no
encoder was given: a good variance puts the images in its order (Spearman's rank correlation).
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from surefind import Encoder
from surefind.datasets import open_dataset
from surefind.images.catalog import Catalog
from surefind.images.matches import matches_of
from surefind.training.trainer import validate

SHOWN = 12


def measure(encoder: Encoder, test: Catalog) -> tuple[float, float, torch.Tensor]:
    """R@1, rank correlation of variance and corruption, and the variances."""
    encoded = encoder.encode_all(test.files)
    right = validate(encoded.embeddings, encoded.rows, test, matches_of(test)).recall
    spread = encoded.embeddings.spread
    var = 1 / spread if encoder.config.family == "von-mises-fisher" else spread
    if not encoder.has_variance:
        return right, float("nan"), var
    return right, float(spearmanr(var, test.difficulty).statistic), var


def draw(var: torch.Tensor, test: Catalog, path: Path) -> None:
    """The images with the smallest variance above those with the largest."""
    order = var.argsort()
    figure = Figure(figsize=(SHOWN * 0.8, 2.4), layout="constrained")
    axes = figure.subplots(2, SHOWN)
    for row, (title, images) in enumerate({"surest": order[:SHOWN], "least sure": order[-SHOWN:]}.items()):
        for axis, image in zip(axes[row], images.tolist(), strict=True):
            axis.imshow(Image.open(test.file(image)), cmap="gray")
            axis.set_title(f"{test.difficulty[image]:.2f}", fontsize=7)
            axis.set_axis_off()
        axes[row][0].text(-0.2, 0.5, title, ha="right", transform=axes[row][0].transAxes)
    figure.suptitle("test glyphs by learned variance; above each its known corruption", fontsize=9)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    test = open_dataset("glyphs").test
    first = Encoder.load(arguments.models[0])
    untrained = Encoder.create(replace(first.config, family="point"), seed=1)
    results = {"untrained": measure(untrained, test)[:2]}
    for model in arguments.models:
        right, correlation, var = measure(Encoder.load(model), test)
        results[model.name] = (right, correlation)
    if arguments.picture is not None:
        arguments.picture.parent.mkdir(parents=True, exist_ok=True)
        draw(var, test, arguments.picture)
    if arguments.json:
        print(json.dumps(results))
        return
    table = Table("model", "R@1", "variance ~ corruption", title="glyphs never trained on")
    for name, (right, correlation) in results.items():
        known = "-" if correlation != correlation else f"{correlation:.2f}"
        table.add_row(name, f"{right:.3f}", known)
    Console().print(table)


if __name__ == "__main__":
    main()
