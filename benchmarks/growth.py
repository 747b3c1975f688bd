"""How building, opening, searching and memory grow from a thousand vectors to a million.

python benchmarks/growth.py [--largest 1000000] [--picture growth.png]     table, JSON, a curve
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from galleries import made_up
from matplotlib.figure import Figure
from measure import grown_by, interleaved, peak_memory, write
from rich.console import Console
from rich.table import Table
from search import RESULTS, K, build, seconds, sizes_in

import surefind as sf
from surefind.reports.figures.style import OURS, WRONG, caption, key, panels, save

DIM, QUERIES = 128, 200
KINDS = ("flat", "hnsw")


def measure(count: int, kind: str) -> dict[str, float]:
    gallery, query = made_up(count, DIM), made_up(QUERIES, DIM, seed=1)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "index"
        building = seconds(lambda: build(folder, gallery, kind).close())
        opening = seconds(lambda: sf.Index.open(folder).close())
        index = sf.Index.open(folder)
        one = interleaved({"": lambda: index.nearest(query[0], K)}, rounds=5, warmup=1)[""]
        many = interleaved({"": lambda: index.nearest(query, K)}, rounds=3, warmup=1)[""]
        memory = peak_memory(sys.argv[0], str(folder)) if sys.platform == "linux" else np.nan
        return {
            "build, seconds": building,
            "open, seconds": opening,
            "one query, ms": 1000 * one,
            "queries/s": QUERIES / many,
            "bytes per vector": sum(sizes_in(folder).values()) / count,
            "searching, MB beyond the mapped file": memory,
        }


def memory_of_searching(folder: Path) -> float:
    """Beyond the vectors, which are pages of the file that the system may drop at any time."""
    index = sf.Index.open(folder)
    query = made_up(QUERIES, DIM, seed=1)
    index.nearest(query[:1], K)  # the file is mapped in and read
    return grown_by(lambda: index.nearest(query, K))


def draw(results: dict[str, list[dict[str, float]]], sizes: list[int], path: Path) -> None:
    figure: Figure
    figure, axes = panels(1, 3, height=2.8)
    titles = {
        "build, seconds": "building, seconds",
        "one query, ms": "one query, ms",
        "queries/s": f"queries/s, {QUERIES} at once",
    }
    for axis, (name, title) in zip(axes[0], titles.items(), strict=True):
        for kind, colour in zip(KINDS, (OURS, WRONG), strict=True):
            values = [row[name] for row in results[kind]]
            axis.plot(sizes[: len(values)], values, "o-", color=colour, label=kind, markersize=3)
        axis.set_xscale("log")
        axis.set_yscale("log")
        caption(axis, title, x=f"vectors of {DIM} dimensions")
    key(axes[0, 0])
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--picture", type=Path, default=RESULTS / "growth.png")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "growth.json")
    parser.add_argument("--peak", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        print(memory_of_searching(arguments.peak))
        return
    sizes = [n for n in (1_000, 10_000, 100_000, 1_000_000) if n <= arguments.largest]
    results = {kind: [measure(n, kind) for n in sizes] for kind in KINDS}
    table = Table("kind", "vectors", *results["flat"][0])
    for kind, rows in results.items():
        for count, row in zip(sizes, rows, strict=True):
            table.add_row(kind, f"{count:,}", *(f"{value:,.4g}" for value in row.values()))
    Console(width=140).print(table)
    draw(results, sizes, arguments.picture)
    write({"dim": DIM, "k": K, "sizes": sizes, "results": results}, arguments.output)


if __name__ == "__main__":
    main()
