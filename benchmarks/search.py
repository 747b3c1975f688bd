"""Searching an index beside bare faiss on the same data; opening, adding, and both rankings.

python benchmarks/search.py [--images 100000] [--dim 512] [--rounds 5]     table, and a JSON file
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from galleries import made_up
from measure import interleaved, write
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import surefind as sf
from surefind.engines.base import Space
from surefind.engines.embedded.ann import LINKS, LOOK, LOOK_BUILDING

K, QUERIES, PACKETS, ONES = 10, 1000, 320, 100
WAYS = {"16 at a time": PACKETS, "one by one": ONES}  # others ask all at once
RESULTS = Path(__file__).parent / "results"


def build(folder: Path, gallery: sf.Gaussians, kind: str, *, ranking: str = "expected") -> sf.Index:
    """An index made in ten thousands, compacted and opened again."""
    space = Space("gaussian", gallery.dim, ranking)
    index = sf.Index.create_empty(folder, space, fingerprint="benchmark", kind=kind)
    for start in range(0, len(gallery), 10_000):
        some = gallery[start : start + 10_000]
        index.add_embeddings(some, [str(start + row) for row in range(len(some))])
    index.compact()
    index.close()
    return sf.Index.open(folder)


def bare_hnsw(means: NDArray[np.float32]) -> Any:
    index = faiss.IndexHNSWFlat(means.shape[1], LINKS)
    index.hnsw.efConstruction, index.hnsw.efSearch = LOOK_BUILDING, LOOK
    index.add(means)
    return index


def recall(found: list[list[str]], true: list[list[str]]) -> float:
    shared = [len(set(a) & set(b)) / len(b) for a, b in zip(found, true, strict=True)]
    return float(np.mean(shared))


def names(rows: NDArray[np.int64]) -> list[list[str]]:
    return [[str(number) for number in row] for row in rows]


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def sizes_in(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def opening_and_adding(folder: Path, extra: sf.Gaussians) -> dict[str, float]:
    """Seconds to open with every vector checked, and what adding a thousand costs."""
    opened = [seconds(lambda: sf.Index.open(folder).close()) for _ in range(3)]
    index, before = sf.Index.open(folder), sizes_in(folder)
    names = [f"new {row}" for row in range(len(extra))]
    added = seconds(lambda: index.add_embeddings(extra, names))
    after = sizes_in(folder)
    new = sum(size - before.get(path, 0) for path, size in after.items())
    return {
        "open, seconds": float(np.median(opened)),
        "add 1,000, seconds": added,
        "add 1,000, MB written": new / 1e6,
        "all of it, MB": sum(after.values()) / 1e6,
    }


def baseline_of(name: str) -> str:
    kind, way = "HNSW" if "HNSW" in name else "flat", name.split(", ")[1]
    return f"faiss {kind}, {way if way in WAYS else 'means'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "search.json")
    arguments = parser.parse_args()
    gallery = made_up(arguments.images, arguments.dim)
    query = made_up(QUERIES, arguments.dim, seed=1)
    means, asking = gallery.mean.numpy(), query.mean.numpy()
    flat = faiss.IndexFlatL2(arguments.dim)
    flat.add(means)
    graph = bare_hnsw(means)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        index = {kind: build(folder / kind, gallery, kind) for kind in ("flat", "hnsw", "ivf")}
        by_mean = build(folder / "mean", gallery, "flat", ranking="mean")
        ones = list(query[:ONES])
        packets = [query[start : start + 16] for start in range(0, PACKETS, 16)]
        packets_bare = [asking[start : start + 16] for start in range(0, PACKETS, 16)]
        run: dict[str, Callable[[], object]] = {
            "faiss flat, means": lambda: flat.search(asking, K),
            "index flat, expected distance": lambda: index["flat"].nearest(query, K),
            "index flat, means (native)": lambda: by_mean.nearest(query, K),
            "index flat, hits with evidence": lambda: index["flat"].search(query, K),
            "index flat, the other ranking": lambda: index["flat"].nearest(query, K, ranking="mean"),
            "faiss HNSW, means": lambda: graph.search(asking, K),
            "index HNSW, expected distance": lambda: index["hnsw"].nearest(query, K),
            "index IVF, expected distance": lambda: index["ivf"].nearest(query, K),
            "faiss HNSW, 16 at a time": lambda: [graph.search(rows, K) for rows in packets_bare],
            "index HNSW, 16 at a time": lambda: [index["hnsw"].nearest(q, K) for q in packets],
            "faiss flat, one by one": lambda: [flat.search(row[None], K) for row in asking[:ONES]],
            "index flat, one by one": lambda: [index["flat"].nearest(q, K) for q in ones],
            "faiss HNSW, one by one": lambda: [graph.search(row[None], K) for row in asking[:ONES]],
            "index HNSW, one by one": lambda: [index["hnsw"].nearest(q, K) for q in ones],
            "index IVF, one by one": lambda: [index["ivf"].nearest(q, K) for q in ones],
        }
        taken = interleaved(run, rounds=arguments.rounds, warmup=1)
        true = index["flat"].ids(index["flat"].nearest(query, K))
        exact_means = names(flat.search(asking, K)[1])
        found = {"faiss HNSW, means": recall(names(graph.search(asking, K)[1]), exact_means)}
        for kind, name in (("hnsw", "HNSW"), ("ivf", "IVF")):
            together = index[kind].ids(index[kind].nearest(query, K))
            apart = [index[kind].ids(index[kind].nearest(q, K))[0] for q in query]
            found[f"index {name}, expected distance"] = recall(together, true)
            found[f"index {name}, one by one"] = recall(apart, true)
        packed = [ids for some in packets for ids in index["hnsw"].ids(index["hnsw"].nearest(some, K))]
        found["index HNSW, 16 at a time"] = recall(packed, true[:PACKETS])
        more = opening_and_adding(folder / "flat", made_up(1000, arguments.dim, seed=2))
    asked = {name: WAYS.get(name.split(", ")[1], QUERIES) for name in run}
    speed = {name: asked[name] / taken[name] for name in run}
    ratio = {name: speed[name] / speed[baseline_of(name)] for name in run}
    table = Table("", "queries/s", "of bare faiss", f"recall@{K}")
    for name in run:
        right = f"{found[name]:.4f}" if name in found else "1" if "flat" in name else ""
        table.add_row(name, f"{speed[name]:,.0f}", f"{ratio[name]:.2f}", right)
    Console().print(table)
    for name, value in more.items():
        print(f"{name}: {value:.3f}")
    settings = {name: getattr(arguments, name) for name in ("images", "dim", "rounds")}
    write(
        {
            "settings": settings | {"threads": torch.get_num_threads(), "k": K},
            "queries_per_second": speed,
            "of_bare_faiss": ratio,
            "recall": found,
            **more,
        },
        arguments.output,
    )


if __name__ == "__main__":
    main()
