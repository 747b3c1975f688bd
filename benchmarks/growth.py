"""How an index grows from a thousand vectors to a million, beside bare faiss: time, memory, disk.

python benchmarks/growth.py [--sizes 1000 ... 1000000] [--graphs 100000] [--tail 50000]     table, JSON, curves
python benchmarks/growth.py --sizes 10000000 --dim 96 --kinds flat ivf --tail 0             once, half an hour
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from calibrated_search import calibration_cost, new_index
from galleries import made_up, made_up_classes
from matplotlib.figure import Figure
from measure import grown_by, interleaved, peak_memory, write
from rich.console import Console
from rich.table import Table
from search import RESULTS, K, bare_flat, bare_hnsw, cpu, sizes_in, written_by

import surefind as sf
from surefind.engines import Where
from surefind.reports.figures.style import OURS, RIGHT, WRONG, caption, panels, save

QUERIES, STEP = 200, 1000
BARE = {"flat": bare_flat, "hnsw": bare_hnsw}
COLOURS = {"flat": OURS, "hnsw": WRONG, "ivf": RIGHT}
CURVES = {
    "build, seconds": "building, CPU seconds",
    "add 1,000, seconds": "adding 1,000, CPU seconds",
    "calibrate, seconds": "calibrating, seconds",
    "one query, ms": "one query, CPU ms",
    "first filter, ms": "first filter by label, CPU ms",
    "bytes per vector": "bytes per vector on disk",
    "calibrating, MB": "memory of calibrating, MB",
}


def measure(count: int, dim: int, kind: str) -> dict[str, float]:
    gallery, labels = made_up_classes(count, dim)
    query = np.ascontiguousarray(made_up(QUERIES, dim, seed=1).mean.numpy())
    found: dict[str, float] = {"vectors": count}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "index"
        found["build, seconds"] = cpu(lambda: new_index(folder, gallery, labels, kind=kind).close())
        calibration = calibration_cost(folder, use_labels=True)
        found |= {"calibrate, seconds": calibration["seconds"], "calibrating, MB": calibration["MB"]}
        found["open, seconds"] = cpu(lambda: sf.Index.open(folder).close())
        index = sf.Index.open(folder)
        engine = index._engine
        one, many = {"one": lambda: engine.search(query[:1], K)}, {"many": lambda: engine.search(query, K)}
        if kind in BARE:
            start = time.process_time()
            bare = BARE[kind](gallery.mean.numpy())
            found["faiss build, seconds"] = time.process_time() - start
            one["bare one"], many["bare many"] = lambda: bare.search(query[:1], K), lambda: bare.search(query, K)
        taken: dict[str, float] = {}
        for run in (one, many):  # threads that wait after many would spin beside one
            taken |= interleaved(run, rounds=9, warmup=2, clock=time.process_time)
        label = Where.parse('label="7"')
        found["first filter, ms"] = 1000 * cpu(lambda: engine.count(label))
        filtered = {"": lambda: engine.search(query[:1], K, label)}
        found["filtered query, ms"] = 1000 * interleaved(filtered, rounds=5, warmup=1, clock=time.process_time)[""]
        found["first filter by another field, ms"] = 1000 * cpu(lambda: engine.count(Where.parse("part<2")))
        for name, shown in (("one", "one query, ms"), ("many", "queries/s")):
            for which in (name, f"bare {name}"):
                if which in taken:
                    value = 1000 * taken[which] if name == "one" else QUERIES / taken[which]
                    found[shown if which == name else f"faiss {shown}"] = value
        found["bytes per vector"] = sum(sizes_in(folder).values()) / count
        found["searching, MB beyond the mapped file"] = peak_memory(sys.argv[0], str(folder), "--dim", str(dim))
        more = made_up(STEP, dim, seed=2)
        found["add 1,000, seconds"] = cpu(lambda: index.add_embeddings(more, [f"new {row}" for row in range(STEP)]))
        index.close()
    return found


def memory_of_searching(folder: Path, dim: int) -> float:
    """Beyond the vectors, which are pages of the file that the system may drop at any time."""
    engine = sf.Index.open(folder)._engine
    query = np.ascontiguousarray(made_up(QUERIES, dim, seed=1).mean.numpy())
    engine.search(query[:1], K)  # the file is mapped in and read
    return grown_by(lambda: engine.search(query, K))


def tail(count: int, dim: int) -> list[dict[str, float]]:
    """A graph index that grows by a thousand: bytes written and time of a query after each step."""
    (gallery, labels), query = made_up_classes(count, dim), made_up(1, dim, seed=1).mean.numpy()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "index"
        index = new_index(folder, gallery[:STEP], labels[:STEP], kind="hnsw")
        for start in range(STEP, count, STEP):
            before, ids = sizes_in(folder), [str(start + row) for row in range(STEP)]
            added = cpu(lambda some=gallery[start : start + STEP], ids=ids: index.add_embeddings(some, ids))
            run = {"": lambda: index._engine.search(query, K)}
            one = interleaved(run, rounds=3, warmup=1, clock=time.process_time)[""]
            written = written_by(before, sizes_in(folder)) / 1e6
            rows.append(
                {"vectors": start + STEP, "MB written": written, "add, seconds": added, "query, ms": 1000 * one}
            )
        index.close()
    return rows


def exponent(rows: list[dict[str, float]], name: str) -> float:
    """Slope of a curve in logarithms: 0 does not grow, 1 grows as the number of vectors."""
    if len(rows) < 2:
        return np.nan
    count, value = (np.log([max(row[one], 1e-9) for row in rows]) for one in ("vectors", name))
    return float(np.polyfit(count, value, 1)[0])


def draw(results: dict[str, list[dict[str, float]]], grown: list[dict[str, float]], path: Path) -> None:
    figure: Figure
    figure, axes = panels(3, 3, height=7.5)
    for axis, (name, title) in zip(axes.flat, CURVES.items(), strict=False):
        for kind, rows in results.items():
            for shown, style in ((name, "o-"), (f"faiss {name}", ":")):
                if shown in rows[0]:
                    values = [(row["vectors"], row[shown]) for row in rows]
                    label = kind if shown == name else f"{kind}, bare faiss"
                    axis.plot(*zip(*values, strict=True), style, color=COLOURS[kind], label=label, markersize=3)
        axis.set_xscale("log")
        if name == "bytes per vector":
            axis.set_ylim(bottom=0)
        else:
            axis.set_yscale("log")
            low, high = axis.get_ylim()
            axis.set_ylim(10.0 ** np.floor(np.log10(low)), 10.0 ** np.ceil(np.log10(high)))
        caption(axis, title, x="vectors")
    written, legend = axes.flat[-2:]
    written.plot([row["vectors"] for row in grown], [row["MB written"] for row in grown], color=WRONG)
    written.set_ylim(bottom=0)
    caption(written, f"MB written by adding {STEP:,}", x="vectors in the graph")
    legend.axis("off")
    legend.legend(*axes[0, 0].get_legend_handles_labels(), loc="center left", frameon=False)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--kinds", nargs="+", choices=[*COLOURS], default=["flat", "hnsw"])
    parser.add_argument("--graphs", type=int, default=100_000, help="largest graph; a million takes an hour")
    parser.add_argument("--tail", type=int, default=50_000, help="vectors of the graph that grows by thousands; or 0")
    parser.add_argument("--picture", type=Path, default=RESULTS / "growth.png")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "growth.json")
    parser.add_argument("--peak", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes, dim = arguments.sizes, arguments.dim
    if arguments.peak:
        print(memory_of_searching(arguments.peak, dim))
        return
    began = time.monotonic()
    results: dict[str, list[dict[str, float]]] = {
        kind: [measure(n, dim, kind) for n in sizes if kind != "hnsw" or n <= arguments.graphs]
        for kind in arguments.kinds
    }
    grown = tail(arguments.tail, dim) if arguments.tail else []
    exponents: dict[str, dict[str, float]] = {
        kind: {name: exponent(rows, name) for name in rows[0] if name != "vectors"} for kind, rows in results.items()
    }
    columns = [(kind, row) for kind, rows in results.items() for row in rows]
    table = Table("", *(f"{kind} {row['vectors']:,.0f}" for kind, row in columns), "exponents")
    for name in dict.fromkeys(name for _, row in columns for name in row):
        cells: list[Any] = [f"{row[name]:,.4g}" if name in row else "" for _, row in columns]
        table.add_row(name, *cells, " ".join(f"{each.get(name, np.nan):.2f}" for each in exponents.values()))
    Console(width=160).print(table)
    if grown:
        total, most = sum(row["MB written"] for row in grown), max(row["query, ms"] for row in grown)
        print(f"growing by {STEP:,} to {grown[-1]['vectors']:,}: {total:,.0f} MB written, slowest query {most:.2f} ms")
    if len(sizes) > 1:
        draw(results, grown, arguments.picture)
    print(f"{time.monotonic() - began:.0f} s in all")
    write(
        {"dim": dim, "k": K, "sizes": sizes, "results": results, "exponents": exponents, "tail": grown},
        arguments.output,
    )


if __name__ == "__main__":
    main()
