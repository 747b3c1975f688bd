"""R@1 of trained encoders on test classes, beside the same backbone without training.

python benchmarks/retrieval.py DATA MODEL [MODEL ...] [--weights FILE]     table, and a JSON file
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from measure import write
from rich.console import Console
from rich.table import Table
from torch.nn.functional import normalize

import surefind as sf
from surefind.images.catalog import Catalog
from surefind.images.matches import matches_of
from surefind.training.validate import recall_at_1

RESULTS = Path(__file__).parent / "results"


def recall(encoder: sf.Encoder, test: Catalog) -> float:
    encoded = encoder.encode_all(test.files)
    return recall_at_1(encoded.embeddings, encoded.rows, test, matches_of(test))


class Untrained(sf.Encoder):
    """Pooled features of the backbone as they are, without a head."""

    def embed(self, features: torch.Tensor) -> sf.Embeddings:
        mean = normalize(self.mean_head.gem(features), dim=1)
        return sf.Gaussians(mean, mean.new_full((len(mean),), 1e-8))

    def empty(self) -> sf.Embeddings:
        return sf.Gaussians(torch.empty(0, self.backbone.channels), torch.empty(0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--weights", type=Path, help="of the untrained backbone")
    arguments = parser.parse_args()
    test = sf.open_dataset(arguments.data).test
    found: dict[str, float] = {}
    if arguments.weights is not None:
        config = replace(sf.Encoder.load(arguments.models[0]).config, family="point")
        found["untrained GeM"] = recall(Untrained.create(config, weights=arguments.weights), test)
    for model in arguments.models:
        found[model.name] = recall(sf.Encoder.load(model), test)
    table = Table("model", "R@1", title=f"{len(test)} images of {len(test.classes)} test classes")
    for name, value in found.items():
        table.add_row(name, f"{value:.4f}")
    Console().print(table)
    write({"data": arguments.data, "recall_at_1": found}, RESULTS / "retrieval.json")


if __name__ == "__main__":
    main()
