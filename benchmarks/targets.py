"""All benchmarks, and the rows of the table: each figure with its target and its peer."""

# ruff: noqa: RUF001  (the signs of multiplication)

import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SIGNS = {"≤": operator.le, "≥": operator.ge, "<": operator.lt}
Result = Mapping[str, Any]  # what a benchmark has written

CLT, SADDLEPOINT = "BayesianTripletLoss clt", "BayesianTripletLoss saddlepoint"
BATCH = "all triplets, batch {} of {} classes, D = 511"
EVERYTHING = "surefind, both rankings, every signal"


class Row(NamedTuple):
    """A figure of a benchmark; the target starts with a sign: ≤ 0.2, ≥ 0.9, < 50."""

    what: str
    value: Callable[[Result], float]
    target: str = ""  # empty: none
    unit: str = "{:.2f} ×"
    peer: str | Callable[[Result], str] = ""  # what it is a ratio to, or what others reach
    why: str = ""  # it is missed: what the profile says

    def show(self, value: float) -> str:
        return self.unit.format(value)


class Benchmark(NamedTuple):
    """A script with the words of its command line, and the minutes it takes on two cores."""

    name: str
    group: str
    minutes: float
    words: str  # $DATA, $KEEP and $DEMO are filled in
    quick: str  # to see that it works
    rows: tuple[Row, ...]
    file: str = ""  # unless that of the name

    @property
    def script(self) -> Path:
        return HERE / (self.file or f"{self.name}.py")


def met(value: float, target: str) -> bool | None:
    """Return whether a value is within a target; None without one.

    >>> met(0.896, "≥ 0.9"), met(0.2, "≤ 0.2 s"), met(1.0, "")
    (False, True, None)
    """
    if not target:
        return None
    sign, number, *_ = target.split()
    return bool(SIGNS[sign](value, float(number.replace(",", ""))))


def _last(kind: str, name: str) -> Callable[[Result], float]:
    """A figure of the largest index of this kind."""
    return lambda f: f["results"][kind][-1][name]


def _int8_loss(f: Result) -> float:
    """The signal that int8 changes most, so that none is chosen by its result."""
    return max(abs(change) for name, change in f["quality"]["ResNet-50"]["int8 - torch"].items() if name != "R@1")


KINDS = {"flat": "flat", "hnsw": "HNSW"}
BENCHMARKS = (
    Benchmark(
        "accuracy", "mathematics", 0.5, "", "--triplets 2",
        tuple(
            Row(
                f"worst error of P(τ < x), D = {dim}, `saddlepoint`",
                lambda f, dim=dim: f["worst errors of P and log P"][dim]["saddlepoint"][0],
                target, "{:.0e}",
                lambda f, dim=dim: f"`clt`: {f['worst errors of P and log P'][dim]['clt'][0]:.0e}",
            )
            for dim, target in (("128", "≤ 2e-5"), ("2048", "≤ 1e-6"))
        ),
    ),
    Benchmark(
        "loss", "losses", 2.0, "--quick", "--quick",
        (
            *(
                Row(
                    f"`BayesianTripletLoss`, all triplets of {size} images of {size // 4} classes, D = 511",
                    lambda f, size=size: f[BATCH.format(size, size // 4)]["ratios"][CLT],
                    target, peer="time of pytorch-metric-learning's `TripletMarginLoss(labels)`", why=why,
                )
                for size, target, why in (
                    (
                        256, "≤ 0.2",
                        "on one thread 4.4 ms, of which 1.7 are two matrix products, that of the distances in float64, "
                        "0.5 are log Φ, and most of the rest is reading and writing chunks of 256 KB.",
                    ),
                    (64, "≤ 1", "172 operations of 1 to 3 µs each; the matrix products take 0.1 ms."),
                )
            ),
            Row(
                "`saddlepoint`, batch of 256",
                lambda f: f[BATCH.format(256, 64)]["seconds"][SADDLEPOINT] / f[BATCH.format(256, 64)]["seconds"][CLT],
                "≤ 3", peer="time of `clt`",
                why="on one thread 30 ms: values and slopes 6, triplets near the mean in float64 5, the saddlepoint 5, "
                "selecting 3; and `clt`, in closed form, takes a third of what it did.",
            ),
            Row(
                "125 index triplets, D = 2047: times as fast",
                lambda f: f["125 index triplets, D = 2047"]["ratios"]["element-wise formula"],
                "≥ 10", peer="the paper's formula, coordinate by coordinate",
                why="107 small operations; in a loop of its own it is 10 × as fast, but here the other formula has "
                "emptied the caches before each step.",
            ),
            Row(
                "memory for 67 million triplets of 512 images of two classes",
                lambda f: max(f["peak memory MB"].values()), "< 268 MB", "{:.0f} MB", "one float for each: 268 MB",
            ),
        ),
    ),
    Benchmark(
        "encode", "encoding", 6.0, "--data $DATA --images 1000 --few 100 --rounds 2",
        "--data $DATA --images 16 --rounds 1",
        tuple(
            Row(
                f"`encode`, {model}, JPEGs of {size}: images/s to the slower of decoding and network alone",
                lambda f, model=model, size=size: f["images per second"][model][size]["ratio to the slower part"],
                "≥ 0.95", "{:.2f} ×",
                lambda f, model=model, size=size: "cores that are never idle: "
                f"{f['images per second'][model][size]['of the most possible']:.2f} ×",
                "decoding and network share the cores, so that at most 1 / (1 + decoding / network) is possible: what "
                "the last column says. 1,000 photos for MobileNetV2, 100 for ResNet-50.",
            )
            for model in ("MobileNetV2", "ResNet-50")
            for size in ("224 x 224", "500 x 375")
        ),
    ),
    Benchmark(
        "export_speed", "ONNX", 2.0, "--only speed --data $DATA --keep $KEEP/onnx",
        "--only speed --rounds 1 --data $DATA --keep $KEEP/onnx",
        tuple(
            Row(
                f"`encode` with ONNX {precision}, ResNet-50",
                lambda f, runtime=runtime: f["speed"]["ResNet-50"]["ratio"][runtime],
                target, peer="images/s of plain eager PyTorch", why=why,
            )
            for runtime, precision, target, why in (
                (
                    "onnx", "fp32", "≥ 2",
                    "thread by thread it is 2.06 ×: 259 GFLOP/s in a session, about all that a core with AVX-512 has; "
                    "eager PyTorch gains from its second thread here.",
                ),
                ("onnx-int8", "int8", "≥ 3", ""),
            )
        ),
        "export.py",
    ),
    Benchmark(
        "export_quality", "ONNX", 2.0, "--only quality --images 500 --data $DATA --keep $KEEP/onnx",
        "--only quality --images 300 --data $DATA --keep $KEEP/onnx",
        (
            Row(
                "int8, ResNet-50, CUB-200 (2010): change of R@1",
                lambda f: abs(f["quality"]["ResNet-50"]["int8 - torch"]["R@1"]), "≤ 0.01", "{:.4f}",
                lambda f: f"R@1 of fp32: {f['quality']['ResNet-50']['torch']['R@1']:.3f}",
            ),
            Row(
                "… change of the AUROC of the signal that changes most", _int8_loss, "≤ 0.01", "{:.4f}", "fp32",
                "the worst of all signals, whichever it is, with 500 photos; one AUROC of as many has a standard error "
                "of about 0.02.",
            ),
        ),
        "export.py",
    ),
    Benchmark(
        "search", "search", 7.0, "--rounds 2 --servers pgvector milvus",
        "--images 3000 --dim 32 --rounds 1 --servers pgvector milvus",
        (
            *(
                Row(
                    f"`Engine.search` in 100,000 × 512, {kind}, {batch} at a time: CPU time",
                    lambda f, kind=kind, batch=batch: f["engine_to_faiss_cpu"][kind][f"batches of {batch}"],
                    "" if batch == 1 else "≤ 1.11", peer="bare faiss",
                )
                for kind in ("flat", "hnsw")
                for batch in (1, 16, 256)
            ),
            *(
                Row(
                    f"recall@10, one by one, {kind}", lambda f, kind=kind: f["recall"][f"index {kind}, one by one"],
                    "≥ 0.99", "{:.4f}",
                    lambda f: f"bare faiss HNSW: {f['recall']['faiss HNSW, means']:.4f}",
                )
                for kind in ("HNSW", "IVF")
            ),
            Row(
                "search with `label=class 7`, a filter that selects 1 row of 2,000: times as fast",
                lambda f: f["filters"]["label=class 7"]["times as fast as without"], "≥ 5", "{:.1f} ×",
                "the same without a filter",
            ),
            *(
                Row(
                    f"search of 5,000 rows in {name}: searches/s", lambda f, key=key: f["servers_of_driver"][key],
                    "≥ 0.95", peer=peer,
                    why="of 9.8 ms a search 0.4 are Python: the hits become arrays, which the driver's query leaves as "
                    "text. With more rows the share falls.",
                )
                for key, name, peer in (
                    ("pgvector", "PostgreSQL", "the driver's own query"),
                    ("milvus", "Milvus", "the driver's own query, at the collection's consistency level, Strong"),
                )
            ),
        ),
    ),
    Benchmark(
        "growth", "growth to 1,000,000 × 128", 20.0,
        "--graphs 1000000 --tail 20000 --picture docs/images/growth.png",
        "--sizes 1000 10000 --tail 3000",
        (
            Row("opening, flat: CPU time", _last("flat", "open, seconds"), "≤ 0.5 s", "{:.2f} s"),
            Row("first filter by label, flat: CPU time", _last("flat", "first filter, ms"), "≤ 20 ms", "{:.1f} ms"),
            Row("… the same filter again, with its search", _last("flat", "filtered query, ms"), unit="{:.1f} ms"),
            *(
                Row(
                    f"one query, {KINDS[kind]}: CPU time", _last(kind, "one query, ms"), unit="{:.2f} ms",
                    peer=lambda f, kind=kind: f"bare faiss: {_last(kind, 'faiss one query, ms')(f):.2f} ms",
                )
                for kind in ("flat", "hnsw")
            ),
            *(
                Row(
                    f"memory of 200 searches beyond the mapped file, {KINDS[kind]}",
                    _last(kind, "searching, MB beyond the mapped file"), "≤ 256 MB", "{:.0f} MB",
                )
                for kind in ("flat", "hnsw")
            ),
            Row(
                "building the graph: CPU time",
                lambda f: _last("hnsw", "build, seconds")(f) / _last("hnsw", "faiss build, seconds")(f),
                "≤ 1.1", peer="bare faiss with the same parameters",
            ),
            Row(
                "adding 1,000 to a graph of 20,000: share of the index that is written",
                lambda f: 1e6 * median(step["MB written"] for step in f["tail"][-10:])
                / (_last("hnsw", "bytes per vector")(f) * f["tail"][-1]["vectors"]),
                "≤ 0.1", "{:.3f}", "building again: 1",
            ),
            Row(
                "memory of calibrating 1,000,000, flat", _last("flat", "calibrating, MB"), "≤ 2048 MB", "{:.0f} MB",
                "its vectors, which are pages of the mapped file, have 488 MB",
            ),
            *(
                Row(
                    f"exponent of {name.removesuffix(', ms').removesuffix(', seconds')}, {kind}",
                    lambda f, name=name, kind=kind: f["exponents"][kind][name], unit="{:.2f}",
                    peer="1: as the number of vectors",
                )
                for kind in ("flat", "hnsw")
                for name in (
                    "build, seconds", "add 1,000, seconds", "calibrate, seconds", "one query, ms", "open, seconds",
                    "first filter, ms", "bytes per vector", "calibrating, MB",
                )
            ),
        ),
    ),
    Benchmark(
        "calibrated_search", "calibrated search in 100,000 × 512, with labels", 8.0, "--kinds flat hnsw",
        "--count 3000 --dim 32 --rounds 1 --kinds flat hnsw",
        (
            *(
                Row(
                    f"`index.search`, {kind}, one by one: CPU time above bare faiss",
                    lambda f, kind=kind: f["calibrated_search"][f"{kind}, 1 at a time"]["ms above bare"],
                    "≤ 1.2 ms", "{:.2f} ms",
                    lambda f, kind=kind: "bare faiss: "
                    f"{f['calibrated_search'][f'{kind}, 1 at a time']['ms per query']['bare']:.2f} ms",
                )
                for kind in ("flat", "hnsw")
            ),
            *(
                Row(
                    f"… {kind}, {batch} at a time: queries/s",
                    lambda f, kind=kind, batch=batch: 1
                    / f["calibrated_search"][f"{kind}, {batch} at a time"]["ratio"],
                    "≥ 0.9", peer="bare faiss",
                    why="0.09 to 0.11 ms a query beyond faiss: 20 rows with their checksums 0.035, the label model "
                    "0.020, hits 0.017, exact distances 0.011; after a search along the graph, whose reads displace "
                    "the caches, 0.19. Of 256 queries in 100,000 rows even HNSW searches exhaustively.",
                )
                for kind in ("flat", "hnsw")
                for batch in (16, 256)
            ),
            Row(
                "calibrating with 5,000 labelled queries",
                lambda f: next(iter(f["calibration"].values()))["seconds"], "≤ 60 s", "{:.0f} s",
            ),
            Row(
                "… memory", lambda f: next(iter(f["calibration"].values()))["times the vectors"], "≤ 1.5",
                peer="the vectors",
                why="1.0 are the pages of the vectors, all of which the search reads; of the rest a third are modules "
                "that only calibrating imports, then the queries, the class table, rows and distances.",
            ),
        ),
    ),
    Benchmark(
        "demo", "start-up", 3.0, "--folder $DEMO", "--folder $DEMO",
        (Row("`surefind demo`: CPU seconds", lambda f: f["cpu_seconds"], "≤ 150 s", "{:.0f} s"),),
    ),
    Benchmark(
        "startup", "start-up", 2.0, "--rounds 7", "--rounds 1",
        tuple(
            Row(f"`{name}`: CPU seconds", lambda f, name=name: f["cpu_seconds"][name], target, unit, peer)
            for name, target, unit, peer in (
                ("import surefind", "≤ 0.03 s", "{:.3f} s", "beyond those of Python"),
                ("surefind --help", "≤ 0.3 s", "{:.2f} s", ""),
                ("surefind search: one vector", "≤ 2 s", "{:.2f} s", ""),
                ("surefind search: one photo", "≤ 4 s", "{:.2f} s", ""),
            )
        ),
    ),
    Benchmark(
        "evaluate", "evaluation", 3.0, "--rounds 1 --images 30000", "--images 2000 --dim 32 --rounds 1 --large 20000",
        (
            Row(
                "whole evaluation of 30,000 × 256: both rankings, all signals, intervals",
                lambda f: f["seconds"][EVERYTHING] / f["seconds"]["both bare searches"],
                "≤ 1.15", peer="time of the two bare faiss searches it needs",
                why="of 10 CPU seconds 8.2 are faiss, on two cores; statistics and resampling 1.3, cross-fitted "
                "probabilities 0.5 and exact distances 0.4 mostly run on one.",
            ),
            Row(
                "… memory above the embeddings", lambda f: f["memory_mb"][EVERYTHING], "≤ 1000 MB", "{:.0f} MB",
                lambda f: f"pytorch-metric-learning, two metrics: {f['memory_mb']['pytorch-metric-learning']:.0f} MB",
            ),
            Row(
                "… of 2,000 queries in 1,000,000 × 128",
                lambda f: next(mb for name, mb in f["memory_mb"].items() if "2,000 queries" in name),
                "≤ 1000 MB", "{:.0f} MB",
            ),
        ),
    ),
    Benchmark(
        "retrieval", "confidence", 0.5, "glyphs $DEMO/model", "glyphs $DEMO/model",
        (
            Row(
                "rank correlation of learned variance and known corruption, unseen glyphs",
                lambda f: f["variance_and_corruption"]["model"], unit="{:.2f}",
            ),
            Row("… R@1", lambda f: f["recall_at_1"]["model"], unit="{:.3f}"),
        ),
    ),
    Benchmark(
        "serve", "service", 4.0, "", "--quick --rounds 1",
        (
            Row(
                "16 clients: answers/s", lambda f: f["ratio"], "≥ 0.85", peer="images/s of bare encoding",
                why="of 12.1 ms of CPU a request 9.9 are decoding and network, 1.1 HTTP and JSON, and 0.9 search and "
                "confidence. Encoding threads always have work, yet cores are idle for 13 % of the time, 7 % in "
                "bare encoding: probably they wait for Python's interpreter lock.",
            ),
            Row(
                "… the same by CPU time of the service", lambda f: f["cpu_ratio"],
                peer="without that of the clients",
            ),
            Row("… `/healthz` meanwhile, p99", lambda f: f["health, ms"]["p99"], "< 50 ms", "{:.1f} ms"),
            Row("… requests that were not answered", lambda f: f["not answered"], "≤ 0", "{:.0f}"),
            Row(
                "one client: time beyond decoding and network, p50", lambda f: f["quiet, ms"]["added"],
                "≤ 5 ms", "{:.1f} ms", lambda f: f"of {f['quiet, ms']['whole']:.1f} ms",
            ),
            Row(
                "twice as many requests as it can answer: accepted but not answered",
                lambda f: f["overload"]["taken but not answered"], "≤ 0", "{:.0f}",
            ),
            Row(
                "… refused without Retry-After", lambda f: f["overload"]["refused without Retry-After"],
                "≤ 0", "{:.0f}",
            ),
            Row(
                "… memory in the last third of the time",
                lambda f: f["overload"]["memory, MB"]["last third"] / f["overload"]["memory, MB"]["first third"],
                "≤ 1.05", peer="memory in the first third",
            ),
            Row("… `/healthz`, p99", lambda f: f["overload"]["health, ms"]["p99"], "< 50 ms", "{:.1f} ms"),
        ),
    ),
)  # fmt: skip
