"""How an index grows from a thousand vectors to a million, beside bare faiss: time, memory, disk.

python benchmarks/growth.py [--largest 1000000] [--graphs 100000] [--tail 50000]     table, JSON, curves
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from galleries import made_up
from matplotlib.figure import Figure
from measure import grown_by, interleaved, peak_memory, write
from rich.console import Console
from rich.table import Table
from search import RESULTS, K, bare_flat, bare_hnsw, cpu, filled, sizes_in, written_by

from surefind.engines import Where, open_engine
from surefind.reports.figures.style import OURS, WRONG, caption, panels, save

DIM, QUERIES, STEP = 128, 200, 1000
KINDS = ("flat", "hnsw")
CURVES = {
    "build, seconds": "building, seconds",
    "one query, ms": "one query, ms",
    "first filter, ms": "first filter by label, ms",
    "bytes per vector": "bytes per vector on disk",
}


def measure(count: int, kind: str) -> dict[str, float]:
    gallery = made_up(count, DIM)
    means, query = gallery.mean.numpy(), np.ascontiguousarray(made_up(QUERIES, DIM, seed=1).mean.numpy())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "index"
        building = cpu(lambda: filled(folder, gallery, kind).close())
        opening = cpu(lambda: open_engine(str(folder)).close())
        engine, start = open_engine(str(folder)), time.process_time()
        bare = bare_hnsw(means) if kind == "hnsw" else bare_flat(means)
        bare_building = time.process_time() - start
        run = {
            "one": lambda: engine.search(query[:1], K),
            "bare one": lambda: bare.search(query[:1], K),
            "many": lambda: engine.search(query, K),
            "bare many": lambda: bare.search(query, K),
        }
        taken = interleaved(run, rounds=5, warmup=1, clock=time.process_time)
        first = cpu(lambda: engine.count(Where.parse("label=class 7")))
        filtered = interleaved(
            {"": lambda: engine.search(query[:1], K, Where.parse("label=class 7"))},
            rounds=5,
            warmup=1,
            clock=time.process_time,
        )[""]
        other = cpu(lambda: engine.count(Where.parse("price<5")))
        memory = peak_memory(sys.argv[0], str(folder)) if sys.platform == "linux" else np.nan
        return {
            "vectors": count,
            "build, seconds": building,
            "faiss build, seconds": bare_building,
            "open, seconds": opening,
            "one query, ms": 1000 * taken["one"],
            "faiss one query, ms": 1000 * taken["bare one"],
            "queries/s": QUERIES / taken["many"],
            "faiss queries/s": QUERIES / taken["bare many"],
            "first filter, ms": 1000 * first,
            "first filter by another field, ms": 1000 * other,
            "filtered query, ms": 1000 * filtered,
            "bytes per vector": sum(sizes_in(folder).values()) / count,
            "searching, MB beyond the mapped file": memory,
        }


def memory_of_searching(folder: Path) -> float:
    """Beyond the vectors, which are pages of the file that the system may drop at any time."""
    engine = open_engine(str(folder))
    query = np.ascontiguousarray(made_up(QUERIES, DIM, seed=1).mean.numpy())
    engine.search(query[:1], K)  # the file is mapped in and read
    return grown_by(lambda: engine.search(query, K))


def tail(count: int) -> list[dict[str, float]]:
    """A graph index that grows by a thousand: bytes written and time of a query after each step."""
    gallery, query = made_up(count, DIM), np.ascontiguousarray(made_up(1, DIM, seed=1).mean.numpy())
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "index"
        engine = filled(folder, gallery[:STEP], "hnsw")
        for start in range(STEP, count, STEP):
            before = sizes_in(folder)
            added = cpu(lambda begin=start: filled(folder, gallery[begin : begin + STEP], "hnsw", engine, first=begin))
            one = interleaved({"": lambda: engine.search(query, K)}, rounds=3, warmup=1, clock=time.process_time)[""]
            written = written_by(before, sizes_in(folder)) / 1e6
            rows.append(
                {"vectors": start + STEP, "MB written": written, "add, seconds": added, "query, ms": 1000 * one}
            )
        engine.close()
    return rows


def exponent(rows: list[dict[str, float]], name: str) -> float:
    """Slope of a curve in logarithms: 0 does not grow, 1 grows as the number of vectors."""
    if len(rows) < 2:
        return np.nan
    count, value = (np.log([max(row[one], 1e-9) for row in rows]) for one in ("vectors", name))
    return float(np.polyfit(count, value, 1)[0])


def draw(results: dict[str, list[dict[str, float]]], grown: list[dict[str, float]], path: Path) -> None:
    figure: Figure
    figure, axes = panels(2, 3, height=5)
    for axis, (name, title) in zip(axes.flat, CURVES.items(), strict=False):
        for kind, colour in zip(KINDS, (OURS, WRONG), strict=True):
            for shown, style in ((name, "o-"), (f"faiss {name}", ":")):
                if shown in results[kind][0]:
                    values = [(row["vectors"], row[shown]) for row in results[kind]]
                    label = kind if shown == name else f"{kind}, bare faiss"
                    axis.plot(*zip(*values, strict=True), style, color=colour, label=label, markersize=3)
        axis.set_xscale("log")
        if name == "bytes per vector":
            axis.set_ylim(bottom=0)
        else:
            axis.set_yscale("log")
            low, high = axis.get_ylim()
            axis.set_ylim(10.0 ** np.floor(np.log10(low)), 10.0 ** np.ceil(np.log10(high)))
        caption(axis, title, x="vectors")
    written, legend = axes[1, 1], axes[1, 2]
    written.plot([row["vectors"] for row in grown], [row["MB written"] for row in grown], color=WRONG)
    written.set_ylim(bottom=0)
    caption(written, f"MB written by adding {STEP:,}", x="vectors in the graph")
    legend.axis("off")
    legend.legend(*axes[0, 0].get_legend_handles_labels(), loc="center left", frameon=False)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--graphs", type=int, default=100_000, help="largest graph; a million takes half an hour")
    parser.add_argument("--tail", type=int, default=50_000, help="vectors of the graph that grows by thousands")
    parser.add_argument("--picture", type=Path, default=RESULTS / "growth.png")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "growth.json")
    parser.add_argument("--peak", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        print(memory_of_searching(arguments.peak))
        return
    began = time.monotonic()
    sizes = [n for n in (1_000, 10_000, 100_000, 1_000_000) if n <= arguments.largest]
    results: dict[str, list[dict[str, float]]] = {
        kind: [measure(n, kind) for n in sizes if kind == "flat" or n <= arguments.graphs] for kind in KINDS
    }
    grown = tail(min(arguments.tail, arguments.largest))
    exponents: dict[str, dict[str, float]] = {
        kind: {name: exponent(rows, name) for name in rows[0] if name != "vectors"} for kind, rows in results.items()
    }
    table = Table("", *(f"{kind} {row['vectors']:,.0f}" for kind in KINDS for row in results[kind]), "exponents")
    for name in results["flat"][0]:
        cells: list[Any] = [f"{row[name]:,.4g}" for kind in KINDS for row in results[kind]]
        table.add_row(name, *cells, " ".join(f"{exponents[kind].get(name, np.nan):.2f}" for kind in KINDS))
    Console(width=160).print(table)
    if grown:
        total, most = sum(row["MB written"] for row in grown), max(row["query, ms"] for row in grown)
        print(f"growing by {STEP:,} to {grown[-1]['vectors']:,}: {total:,.0f} MB written, slowest query {most:.2f} ms")
    draw(results, grown, arguments.picture)
    print(f"{time.monotonic() - began:.0f} s in all")
    write(
        {"dim": DIM, "k": K, "sizes": sizes, "results": results, "exponents": exponents, "tail": grown},
        arguments.output,
    )


if __name__ == "__main__":
    main()
