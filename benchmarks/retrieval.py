"""R@1 of trained encoders on test classes, beside the same backbone without training.

python benchmarks/retrieval.py DATA MODEL [MODEL ...] [--weights FILE]     table, and a JSON file

Where the data know how corrupted each image is, as glyphs do: whether the variance knows it too.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from measure import write
from rich.console import Console
from rich.table import Table
from torch.nn.functional import normalize

import surefind as sf
from surefind.encoders.heads import log_map
from surefind.images.catalog import Catalog
from surefind.images.matches import matches_of
from surefind.training.trainer import validate

RESULTS = Path(__file__).parent / "results"


class Judged(NamedTuple):
    """One encoder on images of classes that it never saw."""

    recall: float  # R@1
    corruption: float | None  # rank correlation of its variance with the known corruption


def judged(encoder: sf.Encoder, test: Catalog) -> Judged:
    encoded = encoder.encode_all(test.files)
    embeddings = encoded.embeddings
    recall = validate(embeddings, encoded.rows, test, matches_of(test)).recall
    spread = embeddings.spread.double()
    var = 1 / spread if isinstance(embeddings, sf.VonMisesFisher) else spread
    if not test.difficulty or bool((var == var[0]).all()):
        return Judged(recall, None)
    known = torch.tensor(test.difficulty, dtype=torch.float64)[encoded.rows]
    return Judged(recall, sf.metrics.spearman(var, known))


def name_of(model: Path) -> str:
    return "/".join(model.parts[-2:]) if model.name.startswith("seed-") else model.name


class Untrained(sf.Encoder):
    """Pooled features of the backbone as they are, without a head."""

    def embed(self, features: torch.Tensor) -> sf.Embeddings:
        mean = normalize(self.mean_head.gem(log_map(features)), dim=1)
        return sf.Gaussians(mean, mean.new_full((len(mean),), 1e-8))

    def empty(self) -> sf.Embeddings:
        return sf.Gaussians(torch.empty(0, self.backbone.channels), torch.empty(0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--weights", type=Path, help="of the untrained backbone")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "retrieval.json")
    arguments = parser.parse_args()
    test = sf.open_dataset(arguments.data).test
    found: dict[str, Judged] = {}
    if arguments.weights is not None:
        config = replace(sf.Encoder.load(arguments.models[0]).config, family="point")
        untrained = Untrained.create(config, weights=arguments.weights)
        found["untrained GeM"] = judged(untrained, test)
    for model in arguments.models:
        found[name_of(model)] = judged(sf.Encoder.load(model), test)
    title = f"{len(test)} images of {len(test.classes)} test classes"
    table = Table("model", "R@1", "variance ~ corruption", title=title)
    for name, (recall, corruption) in found.items():
        known = "" if corruption is None else f"{corruption:.3f}"
        table.add_row(name, f"{recall:.4f}", known)
    Console().print(table)
    told = {
        "images": len(test),
        "classes": len(test.classes),
        "recall_at_1": {name: one.recall for name, one in found.items()},
        "variance_and_corruption": {name: one.corruption for name, one in found.items() if one.corruption is not None},
    }
    write(told, arguments.output)


if __name__ == "__main__":
    main()
