"""Calibrated searches beside bare faiss, and time and memory of calibrating.

python benchmarks/calibrated_search.py [--count 100000] [--dim 512] [--kinds flat hnsw] [--engine URL]

CPU time beside faiss; on a server wall time, beside the engine's own search. `--unlabelled` is the
number of images of an index that is calibrated without labels: that measures the density of all rows.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from galleries import made_up, made_up_classes
from measure import grown_by, write

import surefind as sf
from surefind._faiss import faiss  # with the same matrix kernels as in surefind
from surefind.engines.base import Space
from surefind.engines.embedded.ann import LOOK

RESULTS = Path(__file__).parent / "results"
BATCHES = (1, 16, 256)
K, QUERIES, LABELLED, AT_ONCE = 10, 256, 5000, 200_000


def new_index(
    folder: Path, gallery: sf.Gaussians, labels: torch.Tensor, *, kind: str = "flat", engine: str = "faiss"
) -> sf.Index:
    """An index ranked by means, its graph built."""
    space = Space(gallery.family, gallery.dim, "mean")
    index = sf.Index.create_empty(folder, space, fingerprint="benchmark", engine=engine, kind=kind)
    for start in range(0, len(gallery), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        facts = [{"label": str(label), "part": label % 5} for label in labels[some].tolist()]
        ids = [str(start + row) for row in range(len(facts))]
        index.add_embeddings(gallery[some], ids, metadata=facts)
    index.compact()
    return index


def calibrate(index: sf.Index, *, use_labels: bool) -> float:
    """Seconds to calibrate with labelled queries that are not in the index."""
    asked, labels = made_up_classes(min(LABELLED, len(index) // 4), index.space.dim, seed=5)
    start = time.perf_counter()
    index.calibrate(
        asked,
        labels=labels.tolist(),
        use_labels=use_labels,
        learn_variance=False,
        targets=sf.CalibrationTargets(precision=0.8),
    )
    return time.perf_counter() - start


def bare_search(index: sf.Index) -> Callable[[np.ndarray], Any]:
    """What the engine rests on, with the same vectors."""
    view = getattr(index._engine, "_now", None)
    if view is None:
        return lambda vectors: index._engine.search(vectors, K)
    if view.graph is not None:
        how = faiss.SearchParametersHNSW(efSearch=LOOK)
        return lambda vectors: view.graph.index.search(vectors, K, params=how)
    flat = faiss.IndexFlatL2(index.space.dim)
    flat.add(np.array(view.vectors))
    return lambda vectors: flat.search(vectors, K)


def measured(
    runs: dict[str, Callable[[np.ndarray], Any]], batch: int, dim: int, *, rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Median milliseconds per query of each, in turns."""
    vectors = made_up(min(QUERIES, 16 * batch), dim, seed=2).mean.numpy()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            start = clock()
            for first in range(0, len(vectors), batch):
                run(vectors[first : first + batch])
            if turn:  # the first round warms up
                times[name].append(1000 * (clock() - start) / len(vectors))
    return {name: median(each) for name, each in times.items()}


def search_times(index: sf.Index, *, rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    found, ids = {}, cycle(map(str, range(len(index))))
    for batch in BATCHES:
        runs = {"bare": bare_search(index), "calibrated": lambda vectors: index.search(vectors, K)}
        if batch == 1:
            runs["filtered"] = lambda vectors: index.search(vectors, K, where="part=1")
            runs["neighbours"] = lambda _: index.neighbours(next(ids), K)
        each = measured(runs, batch, index.space.dim, rounds=rounds, clock=clock)
        ratio, above = each["calibrated"] / each["bare"], each["calibrated"] - each["bare"]
        found[f"{batch} at a time"] = {"ratio": ratio, "ms above bare": above, "ms per query": each}
        print(
            f"  {batch:4} at a time: {1 / ratio:.2f} x bare queries/s,", {n: f"{ms:.2f} ms" for n, ms in each.items()}
        )
    return found


def calibration_cost(folder: Path, *, use_labels: bool) -> dict[str, float]:
    """Seconds, and peak memory relative to the vectors, in a fresh process."""
    command = [sys.executable, __file__, "--calibrate", str(folder), "--by", "labels" if use_labels else "density"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    return dict(json.loads(done.stdout.splitlines()[-1]))


def calibrate_alone(folder: Path, *, use_labels: bool) -> None:
    index, seconds = sf.Index.open(folder), []
    grown = grown_by(lambda: seconds.append(calibrate(index, use_labels=use_labels)))
    vectors = 4 * len(index) * index.space.dim / 2**20
    print(json.dumps({"seconds": seconds[0], "MB": grown, "times the vectors": grown / vectors}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--kinds", nargs="+", default=["flat"], choices=["flat", "hnsw"])
    parser.add_argument("--unlabelled", type=int, default=10_000)
    parser.add_argument("--engine", default="faiss", help="faiss, pgvector://... or milvus://...")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calibrate", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--by", default="labels", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "calibrated.json")
    arguments = parser.parse_args()
    if arguments.calibrate:
        return calibrate_alone(arguments.calibrate, use_labels=arguments.by == "labels")
    server = "://" in arguments.engine
    clock = time.perf_counter if server else time.process_time
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    searches, calibrations = {}, {}
    wanted = [(kind, arguments.count, True) for kind in (["server"] if server else arguments.kinds)]
    if not server:
        count = min(arguments.unlabelled, arguments.count)
        wanted.append((f"{count:,} calibrated without labels", count, False))
    for kind, count, use_labels in wanted:
        with TemporaryDirectory() as folder:
            place, structure = Path(folder) / "index", kind if kind == "hnsw" else "flat"
            index = new_index(place, *made_up_classes(count, arguments.dim), kind=structure, engine=arguments.engine)
            size = f"{kind}, {count:,} x {arguments.dim}"
            print(size)
            if sys.platform == "linux" and not server:
                calibrations[size] = calibration_cost(place, use_labels=use_labels)
                index.refresh()
                print("  calibrated:", {name: f"{value:.1f}" for name, value in calibrations[size].items()})
            else:
                calibrations[size] = {"seconds": calibrate(index, use_labels=use_labels)}
            for way, found in search_times(index, rounds=arguments.rounds, clock=clock).items():
                searches[f"{kind}, {way}"] = found
            index.close()
    size = {"count": arguments.count, "dim": arguments.dim}
    write({**size, "calibrated_search": searches, "calibration": calibrations}, arguments.output)
    return None


if __name__ == "__main__":
    main()
