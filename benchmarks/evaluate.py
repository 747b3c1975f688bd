"""Time and memory of a whole evaluation beside the bare search, and beside pytorch-metric-learning.

python benchmarks/evaluate.py [--images 60000] [--dim 256] [--rounds 3]     table, and a JSON file
"""

import argparse
import sys
from pathlib import Path

import torch
from measure import grown_by, interleaved, peak_memory, write
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from rich.console import Console
from rich.table import Table

import surefind as sf
from surefind._faiss import faiss  # with the same matrix kernels as in surefind
from surefind.functional import gallery_vectors, query_vectors
from surefind.images.catalog import Catalog
from surefind.reports.rankings import Embedded, evaluate_rankings

K = 10
LARGE = "surefind, 2,000 queries in {:,} x 128"
RESULTS = Path(__file__).parent / "results"


def made_up(images: int, dim: int, *, per_class: int = 50, queries: int = 0) -> Embedded:
    """Classes as clouds on the sphere, near enough to each other that some hits are wrong.

    The first `queries` ask the others; if there are none, each image asks all others.
    """
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(images // per_class, (images,), generator=generator)
    centres = torch.randn(images // per_class, dim, generator=generator)
    noise = torch.randn(images, dim, generator=generator)
    mean = torch.nn.functional.normalize(centres[codes] + 2.5 * noise, dim=1)
    var = (0.5 + torch.rand(images, generator=generator)) / dim
    paths = tuple(f"{row}.jpg" for row in range(images))
    labels = tuple(f"{code:05d}" for code in codes)
    asks = tuple(row < queries for row in range(images)) if queries else ()
    catalog = Catalog(Path("made-up"), paths, labels=labels, queries=asks)
    return Embedded(sf.Gaussians(mean, var), catalog)


def contestants(own: Embedded) -> dict:
    mean = own.embeddings.mean.numpy()
    asking, stored = (vectors(own.embeddings).numpy() for vectors in (query_vectors, gallery_vectors))
    labels = torch.from_numpy(own.catalog.codes)
    calculator = AccuracyCalculator(include=("precision_at_1", "mean_average_precision"), k=K)
    return {
        "bare search": lambda: faiss.knn(mean, mean, K + 1),
        "surefind, means": lambda: evaluate_rankings(own, learned=False, depth=K),
        "both bare searches": lambda: (faiss.knn(mean, mean, K + 1), faiss.knn(asking, stored, K + 1)),
        "surefind, both rankings, every signal": lambda: evaluate_rankings(own, depth=K),
        "pytorch-metric-learning": lambda: calculator.get_accuracy(own.embeddings.mean, labels),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", type=int, default=1_000_000, help="gallery of the last row")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "evaluate.json")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    large = LARGE.format(arguments.large)
    if arguments.peak == large:
        own = made_up(arguments.large, 128, queries=2000)
        print(grown_by(lambda: evaluate_rankings(own, depth=K)))
        return
    run = contestants(made_up(arguments.images, arguments.dim))
    if arguments.peak:
        print(grown_by(run[arguments.peak]))
        return
    seconds = interleaved(run, rounds=arguments.rounds, warmup=0)
    settings = {name: getattr(arguments, name) for name in ("images", "dim", "rounds", "large")}
    size = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    measured = ("surefind, both rankings, every signal", "pytorch-metric-learning", large)
    memory = {name: peak_memory(sys.argv[0], name, *size) for name in measured}
    baseline = {
        "surefind, means": "bare search",
        "surefind, both rankings, every signal": "both bare searches",
        "pytorch-metric-learning": "bare search",
    }
    table = Table("", "seconds", "to its bare search", "MB above the embeddings")
    for name in run:
        ratio = f"{seconds[name] / seconds[baseline[name]]:.2f}" if name in baseline else "1"
        table.add_row(name, f"{seconds[name]:.1f}", ratio, f"{memory[name]:.0f}" if name in memory else "")
    table.add_row(large, "", "", f"{memory[large]:.0f}")
    Console().print(table)
    write({"settings": settings, "seconds": seconds, "memory_mb": memory}, arguments.output)


if __name__ == "__main__":
    main()
