"""What the one command runs: each benchmark in three sizes, and what it needs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import all_rows_onnx as onnx
import all_rows_quality as quality
import all_rows_speed as speed
import all_rows_starting as starting
from all_rows import Result, Row

HERE = Path(__file__).parent
SIZES = ("quick", "usual", "full")  # to see that all runs; for the table; what takes hours
MISSING = {
    "data": "photos and weights: name their folder with --data, or set SUREFIND_DATA",
    "birds": "encoders trained on CUB-200 (`surefind reproduce cub200`): name them with --birds",
    "glyphs": "an encoder trained on glyphs: name it with --glyphs, or leave out --quick",
}
SHOWN = {  # places, as a reader may fill them in
    "data": "$DATA",
    "keep": "$KEEP",
    "keep_onnx": "$KEEP/onnx",
    "glyphs": "$GLYPHS",
    "birds": "$BIRDS",
    "birds_test": "cub200:$DATA/cub200-2010",
    "birds_weights": "$DATA/weights/mobilenetv2_100.safetensors",
}


class Size(NamedTuple):
    """Words of a command line, with {places} in them, and how long it takes on two cores."""

    words: str
    minutes: float


class Part(NamedTuple):
    """One benchmark."""

    name: str
    group: str
    about: str  # stands in the table where there is no figure
    script: Path
    rows: Callable[[Result], list[Row]]
    sizes: Mapping[str, Size]
    needs: tuple[str, ...] = ()

    def command(self, size: str, places: Mapping[str, Sequence[str]]) -> list[str]:
        """Words after the script, each {place} filled in."""
        return [
            filled
            for word in self.sizes[size].words.split()
            for filled in (places[word[1:-1]] if word.startswith("{") else [word])
        ]

    def shown(self, size: str) -> str:
        """For a reader, without the places of this machine."""
        words = self.command(size, {name: [text] for name, text in SHOWN.items()})
        return " ".join(["python", f"benchmarks/{self.script.name}", *words])


def part(
    name: str,
    group: str,
    about: str,
    *,
    rows: Callable[[Result], list[Row]],
    quick: tuple[str, float],
    usual: tuple[str, float],
    full: tuple[str, float] | None = None,
    script: str = "",
    needs: tuple[str, ...] = (),
) -> Part:
    """`full` is the usual one where nothing longer is wanted."""
    each = zip(SIZES, (quick, usual, full or usual), strict=True)
    sizes = {size: Size(*words) for size, words in each}
    return Part(name, group, about, HERE / f"{script or name}.py", rows, sizes, needs)


PARTS = (
    part(
        "accuracy", "mathematics", "error of the approximations of P(τ < x)",
        rows=quality.accuracy, quick=("--triplets 2", 0.1), usual=("", 0.4),
    ),
    part(
        "loss", "losses", "losses beside pytorch-metric-learning's and the paper's formula",
        rows=speed.loss, quick=("--quick", 1.0), usual=("--quick", 1.0), full=("", 5.0),
    ),
    part(
        "memory", "losses", "memory of training with the paper's batches", rows=speed.memory,
        quick=("bayes-gauss+cpu --steps 1", 0.4),
        usual=("bayes-gauss --steps 1", 2.5), full=("", 12.0),
    ),
    part(
        "encode", "encoding", "encoding beside decoding and the network alone", rows=speed.encode,
        quick=("--data {data} --images 16 --rounds 1", 0.7),
        usual=("--data {data} --images 200 --rounds 1", 2.0),
        full=("--data {data}", 12.0), needs=("data",),
    ),
    part(
        "export_speed", "ONNX", "ONNX Runtime beside eager PyTorch", script="export",
        rows=onnx.export_speed,
        quick=("--only speed --rounds 1 --data {data} --keep {keep_onnx}", 1.5),
        usual=("--only speed --data {data} --keep {keep_onnx}", 2.0), needs=("data",),
    ),
    part(
        "export_quality", "ONNX", "what int8 costs in quality", script="export",
        rows=onnx.export_quality,
        quick=("--only quality --images 300 --data {data} --keep {keep_onnx}", 1.5),
        usual=("--only quality --data {data} --keep {keep_onnx}", 7.0), needs=("data",),
    ),
    part(
        "evaluate", "evaluation", "a whole evaluation beside the bare search", rows=speed.evaluate,
        quick=("--images 2000 --dim 32 --rounds 1 --large 20000", 0.4),
        usual=("--rounds 1", 5.5), full=("--rounds 3", 10.0),
    ),
    part(
        "search", "search", "searching an index beside bare faiss", rows=speed.search,
        quick=("--images 3000 --dim 32 --rounds 1", 0.2),
        usual=("--rounds 3", 6.0), full=("--rounds 5", 7.0),
    ),
    part(
        "growth", "search", "memory of searching as the gallery grows", rows=speed.growth,
        quick=("--largest 1000", 0.2), usual=("--largest 100000", 1.2), full=("", 26.0),
    ),
    part(
        "calibrated_search", "search", "what evidence and confidence cost a search",
        rows=speed.calibrated,
        quick=("--count 3000 --dim 32 --rounds 1", 0.3), usual=("--rounds 7", 3.0),
    ),
    part(
        "expansion", "search", "several pictures as one query", rows=quality.expansion,
        quick=("--data glyphs --model {glyphs}", 0.5),
        usual=("--data glyphs --model {glyphs}", 0.5), needs=("glyphs",),
    ),
    part(
        "confidence", "confidence", "how well wrong first hits and foreign queries are told, birds",
        rows=quality.confidence,
        quick=("--data {data} --keep {keep} --backbones MobileNetV2 --splits 10", 1.0),
        usual=("--data {data} --keep {keep} --backbones MobileNetV2", 2.0),
        full=("--data {data} --keep {keep}", 18.0), needs=("data",),
    ),
    part(
        "confidence_glyphs", "confidence", "the same of glyphs", script="confidence",
        rows=quality.confidence,
        quick=("--backbones --glyphs {glyphs} --keep {keep} --splits 10", 0.5),
        usual=("--backbones --glyphs {glyphs} --keep {keep}", 0.8), needs=("glyphs",),
    ),
    part(
        "retrieval_glyphs", "confidence", "whether the variance knows the corruption of glyphs",
        script="retrieval", rows=quality.retrieval_glyphs,
        quick=("glyphs {glyphs}", 0.3), usual=("glyphs {glyphs}", 0.3), needs=("glyphs",),
    ),
    part(
        "retrieval_birds", "confidence", "R@1 of trained encoders on birds never seen",
        script="retrieval", rows=quality.retrieval_birds,
        quick=("{birds_test} {birds} --weights {birds_weights}", 2.0),
        usual=("{birds_test} {birds} --weights {birds_weights}", 2.5), needs=("data", "birds"),
    ),
    part(
        "serve", "service", "a service with many clients, and with too many", rows=speed.serve,
        quick=("--quick --minutes 0.1 --rounds 1", 1.0),
        usual=("--minutes 1", 4.5), full=("--minutes 10 --rounds 5", 16.0),
    ),
    part(
        "startup", "start-up", "what a command costs before it does anything",
        rows=starting.startup, quick=("--rounds 1", 0.3), usual=("", 1.0),
    ),
)  # fmt: skip
