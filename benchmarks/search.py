"""Searching an index beside bare faiss on the same data; filters, opening, adding, both rankings, servers.

python benchmarks/search.py [--images 100000] [--dim 512] [--rounds 5] [--servers pgvector milvus]
prints a table and writes a JSON file; with --servers it starts PostgreSQL or Milvus for itself.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from galleries import made_up
from measure import interleaved, write
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import surefind as sf
from surefind._faiss import faiss  # with the same matrix kernels as in surefind
from surefind.engines import Where, create_engine, open_engine
from surefind.engines.base import Engine, Rows, Space
from surefind.engines.embedded.ann import LINKS, LOOK, LOOK_BUILDING

K, QUERIES, PACKETS, ONES = 10, 1000, 320, 100
WAYS = {"16 at a time": PACKETS, "one by one": ONES}  # others ask all at once
BATCHES = (1, 16, 256)
FILTERS = ("label=class 7", "label!=class 7", "price<5", "price>=500", "year in 1990,1991", "year=2000 & price<100")
RESULTS = Path(__file__).parent / "results"
SERVED = 5_000  # rows on a server


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


def filled(
    folder: Path | str, gallery: sf.Gaussians, kind: str, engine: Engine | None = None, *, first: int = 0
) -> Engine:
    """An engine ranked by means; its rows, or `gallery` as more of them, have labels, prices and years."""
    engine = engine or create_engine(str(folder), Space("gaussian", gallery.dim, "mean"), {}, kind=kind)
    for start in range(0, len(gallery), 50_000):
        some, draw = gallery[start : start + 50_000], np.random.default_rng(first + start)
        prices, years = (
            draw.uniform(0, 1000, len(some)).round(2).tolist(),
            draw.integers(1990, 2025, len(some)).tolist(),
        )
        names = [f"class {number}" for number in draw.integers(0, 2000, len(some))]
        metadata = tuple(
            {"label": name, "price": price, "year": year}
            for name, price, year in zip(names, prices, years, strict=True)
        )
        ids = tuple(f"row {first + start + row}" for row in range(len(some)))
        engine.add(Rows(ids, some, ("",) * len(ids), metadata))
    return engine


def engine_beside_faiss(engine: Engine, bare: Any, asking: NDArray[np.float32], rounds: int) -> dict[str, float]:
    """CPU seconds of `engine.search` to those of bare faiss, for each size of a batch."""
    found = {}
    for size in BATCHES:
        parts = [np.ascontiguousarray(asking[start : start + size]) for start in range(0, min(256, len(asking)), size)]
        parts = parts[:16]
        run: dict[str, Callable[[], object]] = {
            "faiss": lambda parts=parts: [bare.search(part, K) for part in parts],
            "engine": lambda parts=parts: [engine.search(part, K) for part in parts],
        }
        taken = interleaved(run, rounds=rounds, warmup=1, clock=time.process_time)
        found[f"batches of {size}"] = taken["engine"] / taken["faiss"]
    return found


def filters(folder: Path, query: NDArray[np.float32], rounds: int) -> dict[str, dict[str, float]]:
    """CPU milliseconds of each filter: the first time, in a later version of the index, and of a search with it."""
    engine, found = open_engine(str(folder)), {}
    flat = interleaved({"": lambda: engine.search(query, K)}, rounds=rounds, warmup=1, clock=time.process_time)[""]
    for written in FILTERS:
        where = Where.parse(written.split(" & "))
        first = cpu(lambda where=where: engine.count(where))
        again = open_engine(str(folder))
        fresh = cpu(lambda again=again, where=where: again.count(where))
        again.close()
        run = {"": lambda where=where: engine.search(query, K, where)}
        searching = interleaved(run, rounds=rounds, warmup=1, clock=time.process_time)[""]
        found[written] = {
            "share of the rows": engine.count(where) / engine.count(),
            "first, ms": 1000 * first,
            "with the index of its field, ms": 1000 * fresh,
            "one query, ms": 1000 * searching,
            "times as fast as without": flat / searching,
        }
    engine.close()
    return found


def postgres_beside_driver(gallery: sf.Gaussians, query: NDArray[np.float32], rounds: int) -> float:
    """Searches/s of the engine to those of psycopg with the same rows, one query at a time."""
    import psycopg
    from postgres import postgres_server

    from surefind.engines.pgvector.connection import parse

    with postgres_server() as server:
        url = server.url(table="bench")
        engine = filled(url, gallery, "flat")
        statement = (
            "SELECT key, vector, var, vector <-> %s::vector FROM bench ORDER BY 4 LIMIT %s"  # what a search returns
        )
        asked = ["[" + ",".join(map(str, row.tolist())) + "]" for row in query]
        parameters = {name: value for name, value in parse(url).parameters.items() if name != "client_encoding"}
        with psycopg.connect(**parameters, autocommit=True) as driver:
            run: dict[str, Callable[[], object]] = {
                "driver": lambda: [driver.execute(statement, (text, K)).fetchall() for text in asked],
                "engine": lambda: [engine.search(row[None], K) for row in query],
            }
            taken = interleaved(run, rounds=rounds, warmup=1)
        engine.close()
    return taken["driver"] / taken["engine"]


def milvus_beside_driver(gallery: sf.Gaussians, query: NDArray[np.float32], rounds: int) -> float:
    """Searches/s of the engine to those of `MilvusClient` with the same rows, one query at a time."""
    from milvus_server import milvus_server

    with tempfile.TemporaryDirectory() as folder, milvus_server(Path(folder)) as server:
        engine: Any = filled(f"{server.url}?collection=bench", gallery, "flat")
        engine.refresh()
        client = engine._collection._client
        settings = {"limit": K, "output_fields": ["vector", "var"], "filter": 'id > ""'}
        run: dict[str, Callable[[], object]] = {
            "driver": lambda: [list(client.search("bench", [row], **settings)[0]) for row in query],
            "engine": lambda: [engine.search(row[None], K) for row in query],
        }
        taken = interleaved(run, rounds=rounds, warmup=1)
        engine.close()
    return taken["driver"] / taken["engine"]


SERVERS = {"pgvector": postgres_beside_driver, "milvus": milvus_beside_driver}


def bare_flat(means: NDArray[np.float32]) -> Any:
    index = faiss.IndexFlatL2(means.shape[1])
    index.add(means)
    return index


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


def cpu(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def sizes_in(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def written_by(before: dict[Path, int], after: dict[Path, int]) -> int:
    """Bytes of new files, and by which others have grown."""
    return sum(size - before.get(path, 0) for path, size in after.items())


def opening_and_adding(folder: Path, extra: sf.Gaussians) -> dict[str, float]:
    """Seconds to open with every vector checked, and what adding a thousand costs."""
    opened = [seconds(lambda: sf.Index.open(folder).close()) for _ in range(3)]
    index, before = sf.Index.open(folder), sizes_in(folder)
    names = [f"new {row}" for row in range(len(extra))]
    added = seconds(lambda: index.add_embeddings(extra, names))
    after = sizes_in(folder)
    return {
        "open, seconds": float(np.median(opened)),
        "add 1,000, seconds": added,
        "add 1,000, MB written": written_by(before, after) / 1e6,
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
    parser.add_argument("--servers", nargs="*", choices=[*SERVERS], default=[])
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "search.json")
    arguments = parser.parse_args()
    gallery = made_up(arguments.images, arguments.dim)
    query = made_up(QUERIES, arguments.dim, seed=1)
    means, asking = gallery.mean.numpy(), query.mean.numpy()
    flat, graph = bare_flat(means), bare_hnsw(means)
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
        plain = {kind: filled(folder / f"plain {kind}", gallery, kind) for kind in ("flat", "hnsw")}
        beside = {
            kind: engine_beside_faiss(plain[kind], bare, asking, arguments.rounds)
            for kind, bare in (("flat", flat), ("hnsw", graph))
        }
        filtered = filters(folder / "plain flat", asking[:1], arguments.rounds)
        more = opening_and_adding(folder / "flat", made_up(1000, arguments.dim, seed=2))
    asked = {name: WAYS.get(name.split(", ")[1], QUERIES) for name in run}
    speed = {name: asked[name] / taken[name] for name in run}
    ratio = {name: speed[name] / speed[baseline_of(name)] for name in run}
    table = Table("", "queries/s", "of bare faiss", f"recall@{K}")
    for name in run:
        right = f"{found[name]:.4f}" if name in found else "1" if "flat" in name else ""
        table.add_row(name, f"{speed[name]:,.0f}", f"{ratio[name]:.2f}", right)
    Console().print(table)
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
    few = gallery[: min(SERVED, len(gallery))]
    served = {name: SERVERS[name](few, asking[:50], arguments.rounds) for name in arguments.servers}
    for name, value in more.items():
        print(f"{name}: {value:.3f}")
    for kind, ratios in beside.items():
        print(f"engine.search, {kind}: CPU time to bare faiss", {way: round(its, 3) for way, its in ratios.items()})
    for written, its in filtered.items():
        print(written, {name: round(value, 3) for name, value in its.items()})
    for name, value in served.items():
        print(f"{name}: {value:.2f} of the driver's searches/s")
    settings = {name: getattr(arguments, name) for name in ("images", "dim", "rounds")}
    write(
        {
            "settings": settings | {"threads": torch.get_num_threads(), "k": K},
            "queries_per_second": speed,
            "of_bare_faiss": ratio,
            "recall": found,
            "engine_to_faiss_cpu": beside,
            "filters": filtered,
            "servers_of_driver": served,
            **more,
        },
        arguments.output,
    )


if __name__ == "__main__":
    main()
