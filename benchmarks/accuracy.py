"""Errors of P(tau < x) against the exact law, in the paper's simulation.

python benchmarks/accuracy.py [--triplets 40]        worst over random triplets and 7 quantiles
"""

import argparse
import math
from pathlib import Path

import torch
from measure import write
from rich.console import Console
from rich.table import Table
from torch import Tensor

import surefind as sf

DIMENSIONS = (1, 4, 16, 128, 512, 2048)
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
RESULTS = Path(__file__).parent / "results"


def worst_errors(dim: int, generator: torch.Generator, *, triplets: int) -> dict[str, tuple[float, float]]:
    """For each approximation the worst error of P and of log P."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    batches = [sf.Gaussians(normal(triplets, dim), normal(triplets).abs() + 0.01) for _ in range(3)]
    worst = {"clt": (0.0, 0.0), "saddlepoint": (0.0, 0.0)}
    for row in range(triplets):
        triplet = [batch[row] for batch in batches]
        mean, var = sf.functional.triplet_moments(*triplet)
        for quantile in QUANTILES:
            z = torch.special.ndtri(torch.tensor(quantile, dtype=torch.float64))
            margin = -float(mean + z * var.sqrt())
            exact = sf.functional.triplet_log_prob(*triplet, margin, "exact").item()
            for method, (error, log_error) in worst.items():
                value = sf.functional.triplet_log_prob(*triplet, margin, method).item()
                off = abs(math.exp(value) - math.exp(exact))
                worst[method] = max(error, off), max(log_error, abs(value - exact))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--triplets", type=int, default=40)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "accuracy.json")
    options = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    table = Table("D", "clt", "saddlepoint", "log P: clt", "saddlepoint", title="worst error of P")
    results = {}
    for dim in DIMENSIONS:
        worst = results[str(dim)] = worst_errors(dim, generator, triplets=options.triplets)
        columns = [worst[method][i] for i in (0, 1) for method in ("clt", "saddlepoint")]
        table.add_row(str(dim), *(f"{error:.1e}" for error in columns))
    Console().print(table)
    found = {"triplets": options.triplets, "worst errors of P and log P": results}
    write(found, options.output)


if __name__ == "__main__":
    main()
