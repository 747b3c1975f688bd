"""Our losses against pytorch-metric-learning's and the paper's element-wise formula.

python benchmarks/loss.py            forward + backward, interleaved; ratios, and a JSON file
"""

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path

import torch
from measure import grown_by, interleaved, peak_memory, write
from pytorch_metric_learning.losses import TripletMarginLoss
from pytorch_metric_learning.utils.loss_and_miner_utils import get_all_triplets_indices
from rich.console import Console
from rich.table import Table
from torch import Tensor

import surefind as sf

PER_CLASS = 4
RESULTS = Path(__file__).parent / "results"
Step = Callable[[], object]


def batch(size: int, dim: int, *, classes: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Unit means around a centre per class, variances of the order of 1/D, labels."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(size) % (classes or size // PER_CLASS)
    centres = torch.randn(int(labels.max()) + 1, dim, generator=generator)
    mean = centres[labels] + torch.randn(size, dim, generator=generator)
    mean = torch.nn.functional.normalize(mean, dim=1).requires_grad_()
    var = (torch.rand(size, generator=generator) + 0.5).div_(dim).requires_grad_()
    return mean, var, labels


def step(loss: Callable[[], Tensor], *leaves: Tensor) -> Step:
    """One forward and backward pass."""

    def run() -> None:
        for leaf in leaves:
            leaf.grad = None
        loss().backward()

    return run


def element_wise(mean: Tensor, var: Tensor, triplets: tuple[Tensor, ...]) -> Tensor:
    """-log P by the paper's formula, coordinate by coordinate (errors of the listing mended)."""
    (a, p, n), (va, vp, vn) = ([mean[side] for side in triplets], [var[side][:, None] for side in triplets])
    expected = (p**2 + vp - n**2 - vn - 2 * a * (p - n)).sum(1)
    of_p = vp**2 + 2 * p**2 * vp + 2 * (va + a**2) * (vp + p**2) - 2 * a**2 * p**2 - 4 * a * p * vp
    of_n = vn**2 + 2 * n**2 * vn + 2 * (va + a**2) * (vn + n**2) - 2 * a**2 * n**2 - 4 * a * n * vn
    variance = (2 * of_p + 2 * of_n - 8 * p * n * va).sum(1)
    return -torch.special.log_ndtr(-expected / variance.sqrt()).mean()


def all_triplets(size: int, dim: int) -> dict[str, Step]:
    """Every triplet of a class-balanced batch."""
    mean, var, labels = batch(size, dim)
    margin, indices = TripletMarginLoss(), get_all_triplets_indices(labels)
    contestants = {
        "pml TripletMarginLoss(labels)": step(lambda: margin(mean, labels), mean),
        "pml TripletMarginLoss(indices)": step(lambda: margin(mean, labels, indices), mean),
        "TripletLoss": step(lambda: sf.losses.TripletLoss()(mean, labels), mean),
        "TripletRegressionLoss": step(
            lambda: sf.losses.TripletRegressionLoss()(sf.Gaussians(mean, var), labels), mean, var
        ),
    }
    for method in ("clt", "saddlepoint"):
        loss = sf.losses.BayesianTripletLoss(method=method)
        contestants[f"BayesianTripletLoss {method}"] = step(
            lambda loss=loss: loss(sf.Gaussians(mean, var), labels), mean, var
        )
    sphere = sf.losses.BayesianTripletLoss()
    contestants["BayesianTripletLoss clt, sphere"] = step(
        lambda: sphere(sf.VonMisesFisher(mean, 1 / var), labels), mean, var
    )
    return contestants


def index_triplets(tuples: int, negatives: int, dim: int) -> dict[str, Step]:
    """The paper's batch: tuples of an anchor, a positive and some negatives."""
    mean, var, _ = batch(tuples * (negatives + 2), dim)
    first = torch.arange(tuples).repeat_interleave(negatives) * (negatives + 2)
    triplets = (first, first + 1, first + 2 + torch.arange(negatives).repeat(tuples))
    loss = sf.losses.BayesianTripletLoss(kl_scale=0.0)
    return {
        "element-wise formula": step(lambda: element_wise(mean, var, triplets), mean, var),
        "BayesianTripletLoss clt": step(lambda: loss(sf.Gaussians(mean, var), triplets=triplets), mean, var),
    }


def report(title: str, times: dict[str, float], base: str) -> dict[str, float]:
    """Print a table of milliseconds and of ratios to the base, and return the ratios."""
    table = Table(title=title, title_justify="left")
    for column in ("", "ms", f"ratio to {base}"):
        table.add_column(column, justify="left" if column == "" else "right")
    ratios = {name: seconds / times[base] for name, seconds in times.items()}
    for name, seconds in times.items():
        table.add_row(name, f"{1e3 * seconds:.2f}", f"{ratios[name]:.2f}")
    Console().print(table)
    return ratios


def worst_case(method: str) -> float:
    """Peak memory of the largest case: 512 images of two classes, 67 million triplets."""
    mean, var, labels = batch(512, 128, classes=2)
    loss = sf.losses.BayesianTripletLoss(method=method)
    step(lambda: loss(sf.Gaussians(mean[:64], var[:64]), labels[:64]), mean, var)()
    return grown_by(step(lambda: loss(sf.Gaussians(mean, var), labels), mean, var))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only D = 511, batches of 64 and 256")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "loss.json")
    parser.add_argument("--peak", choices=["clt", "saddlepoint"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(worst_case(options.peak))
        return
    results: dict[str, object] = {}
    sizes = ((64, 511), (256, 511)) if options.quick else itertools.product((64, 128, 256, 512), (128, 511, 2047))
    for size, dim in sizes:
        times = interleaved(all_triplets(size, dim))
        title = f"all triplets, batch {size} of {size // PER_CLASS} classes, D = {dim}"
        base = "pml TripletMarginLoss(labels)"
        saddle = times["BayesianTripletLoss saddlepoint"] / times["BayesianTripletLoss clt"]
        results[title] = {"seconds": times, "ratios": report(title, times, base), "saddlepoint / clt": saddle}
        print(f"saddlepoint / clt: {saddle:.2f}\n")
    times = interleaved(index_triplets(25, 5, 2047), rounds=40)
    title = "125 index triplets, D = 2047"
    results[title] = {"seconds": times, "ratios": report(title, times, "BayesianTripletLoss clt")}
    memory = {method: peak_memory(__file__, method) for method in ("clt", "saddlepoint")}
    for method, megabytes in memory.items():
        print(f"peak memory, 67 million triplets of 512 images, {method}: {megabytes:.0f} MB")
    write({**results, "peak memory MB": memory}, options.output)


if __name__ == "__main__":
    main()
