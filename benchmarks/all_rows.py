"""Rows of the table: each figure of a benchmark beside its target."""

from collections.abc import Mapping
from statistics import mean, median
from typing import Any, NamedTuple

Result = Mapping[str, Any]  # what a benchmark has written
FUSED, RATIO = "surefind's confidence", "d₁/d₂₀ + Platt"
AUROC, ECE = 0.80, 0.05
MARGIN = "pml TripletMarginLoss"
FLOATS = 268.0  # MB: one float32 for each of 67 million triplets
FASTER = {"onnx": ("fp32", 1.8), "onnx-int8": ("int8", 3.0)}  # targets for ResNet-50
NEAR = 0.01


class Row(NamedTuple):
    """One figure beside its target."""

    what: str
    figure: str
    target: str = ""  # empty: no target
    met: bool | None = None


def at_least(what: str, value: float, least: float, *, shown: str) -> Row:
    """Judged by the value itself, not by its shown digits.

    >>> at_least("queries/s of bare faiss", 0.896, 0.9, shown="0.90 x").met
    False
    """
    return Row(what, shown, f"≥ {least:g}", value >= least)


def at_most(what: str, value: float, most: float, *, shown: str, unit: str = "") -> Row:
    return Row(what, shown, f"≤ {most:g}{unit}", value <= most)


def none_of(what: str, count: int) -> Row:
    return Row(what, f"{count:,}", "0", count == 0)


def accuracy(result: Result) -> list[Row]:
    rows = []
    for dim, most in (("128", 2e-5), ("2048", 1e-6)):
        (clt, _), (saddle, _) = (
            result["worst errors of P and log P"][dim][method] for method in ("clt", "saddlepoint")
        )
        what = f"worst error of P(τ < x), D = {dim}, `saddlepoint` (`clt`: {clt:.0e})"
        rows.append(at_most(what, saddle, most, shown=f"{saddle:.0e}"))
    return rows


def retrieval_birds(result: Result) -> list[Row]:
    recall = dict(result["recall_at_1"])
    untrained = recall.pop("untrained GeM")
    what = f"R@1 on CUB-200 (2010), {result['classes']} classes never trained on, untrained"
    return [
        at_least(f"{what} {untrained:.3f}: {name}", value, 0.58, shown=f"{value:.3f}") for name, value in recall.items()
    ]


def retrieval_glyphs(result: Result) -> list[Row]:
    recall, known = result["recall_at_1"], result["variance_and_corruption"]
    rows = []
    for name, value in known.items():
        what = f"rank correlation of learned variance and true corruption, unseen glyphs: {name}"
        rows += [at_least(what, value, 0.7, shown=f"{value:.2f}"), Row("  R@1 of the same", f"{recall[name]:.3f}")]
    return rows


def expansion(result: Result) -> list[Row]:
    """By means: what precisions add to the plain average of several pictures."""
    rows = []
    for name, found in result["models"].items():
        for count in ("2", "4"):
            less = found["means"][f"{count} photos, precisions"]["mAP@10 less plain"]
            what = (
                f"{count} pictures as one query, unseen glyphs: mAP@10 fused by precision less "
                f"that of the plain average, {name}"
            )
            rows.append(Row(what, f"{less['value']:+.3f} [{less['low']:+.3f}, {less['high']:+.3f}]"))
    return rows


def confidence(result: Result) -> list[Row]:
    return [row for name, found in result["features"].items() for row in _of_set(name, found)]


def _of_set(name: str, found: Result) -> list[Row]:
    splits = list(found["splits"].values())

    def average(way: str, what: str) -> float:
        return mean(one["rows"][way][what] for one in splits)

    guaranteed = [one["guarantees"]["0.9"] for one in splits]
    made = [one["precision"] for one in guaranteed if one["precision"] is not None]
    kept = sum(one >= 0.9 for one in made)
    novelty = mean(one["novelty"] for one in splits)
    auroc, ece = average(FUSED, "auroc"), average(FUSED, "ece")
    rows = [
        at_least(
            f"{name}: AUROC of “the first hit is wrong”, unseen classes, confidence, mean of "
            f"{len(splits)} splits (d₁/d₂₀: {average(RATIO, 'auroc'):.3f})",
            auroc, AUROC, shown=f"{auroc:.3f}",
        ),
        at_most(
            f"  calibration error of the same (d₁/d₂₀ + Platt: {average(RATIO, 'ece'):.3f})",
            ece, ECE, shown=f"{ece:.3f}",
        ),
        Row(
            "  precision 0.9 guaranteed with probability 0.9: kept by unseen classes",
            f"{kept} of {len(made)} (made in {len(splits)} splits)", "≥ 90 %",
            kept >= 0.9 * len(made) if made else None,  # none made, none kept
        ),
        Row(
            "  share of queries answered under that guarantee",
            f"{mean(one['answered'] for one in guaranteed):.2f}",
        ),
    ]  # fmt: skip
    what = f"  foreign queries, AUROC of novelty (black bars alone: {found['bars']:.3f})"
    if name == "glyphs":  # symbols among letters: no aim was set
        return [*rows, Row(what, f"{novelty:.3f}")]
    return [*rows, at_least(what, novelty, 0.99, shown=f"{novelty:.4f}")]


def loss(result: Result) -> list[Row]:
    title = "all triplets, batch 256 of 64 classes, D = 511"
    ratios, seconds = result[title]["ratios"], result[title]["seconds"]
    ours = ratios["BayesianTripletLoss clt"]
    ready_made = ours / ratios[f"{MARGIN}(indices)"]
    saddle = seconds["BayesianTripletLoss saddlepoint"] / seconds["BayesianTripletLoss clt"]
    faster = result["125 index triplets, D = 2047"]["ratios"]["element-wise formula"]
    memory = result["peak memory MB"]
    most = max(memory.values())
    return [
        at_most(
            "`BayesianTripletLoss`, all 193,536 triplets of a batch of 256, D = 511, forward and "
            "backward: time to that of pytorch-metric-learning's `TripletMarginLoss(labels)`",
            ours, 0.4, shown=f"{ours:.2f} x",
        ),
        Row("the same to that loss with its index triplets ready-made", f"{ready_made:.1f} x"),
        at_most("`saddlepoint` to `clt`, same batch", saddle, 6, shown=f"{saddle:.1f} x"),
        at_least(
            "125 index triplets, D = 2047: how much faster than the paper's formula coordinate by "
            "coordinate", faster, 5, shown=f"{faster:.1f} x",
        ),
        Row(
            "memory for all 67 million triplets of 512 images of two classes: `clt`, "
            "`saddlepoint`", f"{memory['clt']:.0f} MB, {memory['saddlepoint']:.0f} MB",
            f"bounded: < {FLOATS:.0f} MB, one float for each", most < FLOATS,
        ),
    ]  # fmt: skip


def memory(result: Result) -> list[Row]:
    what = "peak memory of training with the paper's batches of 175 images of 224 x 224"
    return [Row(f"{what}: `{recipe}`", f"{found['peak_gb']:.1f} GB") for recipe, found in result["memory"].items()]


def encode(result: Result) -> list[Row]:
    rows = []
    for size, speed in result["images per second"].items():
        slower = speed["ratio to the slower part"]
        shared_out = speed["encode"] / speed["network, shared out"]
        rows += [
            at_least(
                f"`encode`, MobileNetV2, JPEGs of {size}: images/s to the slower "
                "of decoding alone and the network alone in batches of 64",
                slower, 0.9, shown=f"{slower:.2f} x",
            ),
            at_least(
                "  the same to the network alone with its images shared out among the cores",
                shared_out, 0.9, shown=f"{shared_out:.2f} x",
            ),
        ]  # fmt: skip
    for name, shares in result["heads / backbone"].items():
        figure = ", ".join(f"{share:.1%} ({setting})" for setting, share in shares.items())
        rows.append(Row(f"time of the heads to that of the backbone, {name}", figure))
    return rows


def evaluate(result: Result) -> list[Row]:
    seconds, memory, size = result["seconds"], result["memory_mb"], result["settings"]
    name = "surefind, both rankings, every signal"
    both = seconds[name] / seconds["both bare searches"]
    means = seconds["surefind, means"] / seconds["bare search"]
    other = seconds["pytorch-metric-learning"] / seconds["bare search"]
    large = next(key for key in memory if key.endswith("x 128"))
    what = f"whole evaluation of {size['images']:,} x {size['dim']}"
    return [
        at_most(
            f"{what}, both rankings, every signal, intervals: time to the two bare faiss searches "
            "it needs", both, 1.15, shown=f"{both:.2f} x",
        ),
        Row("the same by means alone, to one bare search", f"{means:.2f} x"),
        Row(
            "pytorch-metric-learning's `AccuracyCalculator`, two metrics, to one bare search",
            f"{other:.2f} x",
        ),
        at_most(
            f"memory above the embeddings, both rankings (pytorch-metric-learning: "
            f"{memory['pytorch-metric-learning']:.0f} MB)",
            memory[name], 1000, shown=f"{memory[name]:.0f} MB", unit=" MB",
        ),
        at_most(
            f"memory above the embeddings, {large.removeprefix('surefind, ')}",
            memory[large], 1000, shown=f"{memory[large]:.0f} MB", unit=" MB",
        ),
    ]  # fmt: skip


def search(result: Result) -> list[Row]:
    ratio, recall, size = result["of_bare_faiss"], result["recall"], result["settings"]
    what = f"expected-distance search in an index of {size['images']:,} x {size['dim']}"
    rows = [
        at_least(
            f"{what if way == 'flat' else 'the same'}, {way}: queries/s to bare faiss on the means",
            ratio[name], 0.9, shown=f"{ratio[name]:.2f} x",
        )
        for way, name in {
            "flat": "index flat, expected distance",
            "HNSW, 16 at a time": "index HNSW, 16 at a time",
            "HNSW, one by one": "index HNSW, one by one",
        }.items()
    ]  # fmt: skip
    for kind in ("HNSW", "IVF"):
        found = recall[f"index {kind}, one by one"]
        rows.append(at_least(f"recall@10, one by one, {kind}", found, 0.99, shown=f"{found:.4f}"))
    opening, written, whole = (result[key] for key in ("open, seconds", "add 1,000, MB written", "all of it, MB"))
    rows += [
        Row("opening it with every checksum", f"{opening:.2f} s", "< 2 s", opening < 2),
        Row("adding 1,000 writes", f"{written:.1f} MB of {whole:.0f} MB", "not all of it", written < 0.1 * whole),
    ]
    return rows


def growth(result: Result) -> list[Row]:
    rows, count = [], result["sizes"][-1]
    for kind, found in result["results"].items():
        last, name = found[-1], kind.upper() if kind == "hnsw" else kind
        extra = last["searching, MB beyond the mapped file"]
        rows += [
            at_most(
                f"memory of 200 searches in {count:,} x {result['dim']} beyond the mapped file, "
                f"{name}", extra, 256, shown=f"{extra:.0f} MB", unit=" MB",
            ),
            Row(
                f"  one query; building; bytes per vector, {name}",
                f"{last['one query, ms']:.1f} ms; {last['build, seconds']:.1f} s; "
                f"{last['bytes per vector']:.0f}",
            ),
        ]  # fmt: skip
    return rows


def calibrated(result: Result) -> list[Row]:
    size = f"{result['count']:,} x {result['dim']}"
    return [
        at_most(
            f"evidence and confidence: what they add to a search in {size}, {way}",
            found["ratio"], 1.1, shown=f"{found['ratio']:.3f} x",
        )
        for way, found in result["calibrated_search"].items()
    ]  # fmt: skip


def serve(result: Result) -> list[Row]:
    together, crowd = result["throughput"], result["health"]["together"]
    ratio, on_one = (median(together["ratios"][way]) for way in ("one by one", "on one core"))
    outside, over = result["time"]["outside"], result["overload"]
    memory, pulse = over["memory, MB"], over["health, ms"]
    growth, minutes = memory["last third"] / memory["first third"] - 1, over["seconds"] / 60
    return [
        at_least(
            "16 clients: answers/s with batching to one image at a time, on all cores",
            ratio, 2, shown=f"{ratio:.2f} x",
        ),
        Row("  the same to one image at a time on one core", f"{on_one:.2f} x"),
        none_of("  requests that were not answered", together["not answered"]),
        on_time("  `/healthz` meanwhile, p99", crowd),
        Row(
            "one client: time outside decode, encode and search",
            f"{outside:.1%}", "≤ 10%", outside <= 0.1,
        ),
        none_of(
            f"twice as many questions as it can answer, for {minutes:g} min: accepted but not "
            "answered, or any other status", over["taken but not answered"],
        ),
        none_of("  refused without Retry-After", over["refused without Retry-After"]),
        Row(
            "  memory, first and last third",
            f"{memory['first third']:.0f} MB, {memory['last third']:.0f} MB",
            "+ 5 % at most", growth <= 0.05,
        ),
        on_time("  `/healthz` p99", pulse),
    ]  # fmt: skip


def on_time(what: str, told: Result) -> Row:
    kept = told["p99"] < 50 and not told["failed"]
    return Row(what, f"{told['p99']:.1f} ms", "< 50 ms", kept)


def export_speed(result: Result) -> list[Row]:
    rows = []
    for name, found in result["speed"].items():
        ratios = found["ratio"]
        for runtime, (precision, least) in FASTER.items():
            ratio = ratios[f"{runtime}, batches of 8"]
            what = f"ONNX {precision}, {name}, batches of 8: images/s to those of eager PyTorch"
            figure = f"{ratio:.2f} x"
            targeted = name == "ResNet-50"
            rows.append(at_least(what, ratio, least, shown=figure) if targeted else Row(what, figure))
            ours = ratios[f"{runtime}, shared out"] / ratios["torch, shared out"]
            rows.append(Row(f"ONNX {precision}, {name}: to surefind's own use of PyTorch", f"{ours:.2f} x"))
    return rows


def export_quality(result: Result) -> list[Row]:
    """Of all signals the one that int8 changes most, so that none is chosen by its result."""
    rows = []
    for name, found in result["quality"].items():
        less, exact = found["int8 - torch"], found["torch"]
        worst = max((key for key in less if key != "R@1"), key=lambda key: abs(less[key]))
        for key, what in {"R@1": "R@1", worst: f"{worst} of a wrong first hit"}.items():
            rows.append(
                Row(
                    f"ONNX int8 less fp32, {name}, CUB-200 (2010), {what} (fp32: {exact[key]:.3f})",
                    f"{less[key]:+.4f}",
                    f"within {NEAR}",
                    abs(less[key]) <= NEAR,
                )
            )
    return rows


def startup(result: Result) -> list[Row]:
    rows = []
    for name, seconds in result["cpu_seconds"].items():
        target = result["targets"][name]
        rows.append(Row(f"`{name}`: CPU seconds", f"{seconds:.2f} s", f"<= {target:g} s", seconds <= target))
    return rows
