"""How much faster an exported encoder is in `encode`, and what int8 costs in quality.

python benchmarks/export.py [--data DATA] [--model TRAINED]     ratios, and a JSON file
python benchmarks/export.py --only speed                        the interleaved run alone

Quality is of CUB-200 (2010), classes 101-200; the images that int8 is calibrated with, and those
that ResNet-50's mean head is started from, are of the other classes.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measure import interleaved, write
from rich.console import Console
from rich.table import Table

import surefind as sf
from surefind.datasets.splits import Splits
from surefind.encoders.heads import log_map
from surefind.encoders.image_encoder import on_cores
from surefind.encoders.onnx import IMAGES, evenly, export_onnx
from surefind.encoders.open import RUNTIMES, open_encoder
from surefind.encoders.serialization import read_export
from surefind.images.catalog import Catalog
from surefind.images.loader import Batch, Loader
from surefind.images.preprocess import Preprocessing
from surefind.metrics import auroc
from surefind.reports.rankings import embed_catalog
from surefind.reports.signals import DEPTH, neighbours, uncertainty_signals

RESULTS = Path(__file__).parent / "results" / "onnx.json"
BACKBONES = {
    "ResNet-50": ("resnet50_v1", "resnet50_v1_fp16.safetensors"),
    "MobileNetV2": ("mobilenetv2_100", "mobilenetv2_100.safetensors"),
}
AT_ONCE, ROUNDS_OF = 8, 2  # images in a batch, and batches that a round has
EAGER = f"eager PyTorch, batches of {AT_ONCE}"
PCA_IMAGES = 600

Run = Callable[[], object]


def made_model(name: str, splits: Splits, data: Path, keep: Path) -> Path:
    """A backbone of ImageNet, its mean head started as a training does; kept for another run."""
    folder = keep / name
    if (folder / "config.json").exists():
        return folder
    backbone, weights = BACKBONES[name]
    config = sf.EncoderConfig(
        backbone,
        family="point",  # its variance would be that of a head that was never trained
        preprocessing=Preprocessing(size=224, interpolation="bilinear"),
    )
    encoder = sf.Encoder.create(config, weights=data / "weights" / weights).eval()
    files = chosen(splits.train, PCA_IMAGES)
    with torch.inference_mode():
        pooled = [
            encoder.mean_head.pool(log_map(encoder.features(encoder.prepare(batch.pixels))))
            for batch in Loader(files, encoder.resize, batch_size=4)
        ]
    encoder.mean_head.start_from_pca(torch.cat(pooled).clone())
    encoder.save(folder)
    return folder


def chosen(catalog: Catalog, count: int) -> list[Path]:
    return [catalog.file(row) for row in evenly(len(catalog), count)]


def exported(folder: Path, splits: Splits) -> dict[str, Any]:
    """Its ONNX files, and how near they are to it; float32 alone if int8 is refused, with the reason."""
    files, found = chosen(splits.train, IMAGES), {}
    try:
        made = export_onnx(folder, int8=files, source="cub200, classes 1-100")
    except sf.SurefindError as refusal:
        made, found = export_onnx(folder), {"int8": {"refused": refusal.problem}}
    return found | {precision: {"megabytes": its.megabytes, **its.parity._asdict()} for precision, its in made.items()}


def speed(folder: Path, *, rounds: int) -> dict[str, float]:
    """Images per second of plain PyTorch, and of few images on each core, as `encode` does it."""
    precisions = read_export(folder, "fp32").digests
    runtimes = [runtime for runtime, precision in RUNTIMES.items() if not precision or precision in precisions]
    encoders = {runtime: open_encoder(folder, runtime=runtime).for_many() for runtime in runtimes}
    torch_encoder, cores = sf.Encoder.load(folder), torch.get_num_threads()
    size = torch_encoder.preprocessing.size
    images = torch.randint(256, (ROUNDS_OF * AT_ONCE, 3, size, size), dtype=torch.uint8)
    large, small = ([Batch(torch.empty(0), list(part)) for part in images.split(count)] for count in (AT_ONCE, 4))

    def shared_out(runtime: str) -> Run:
        return lambda: list(on_cores(cores, small, lambda: encoders[runtime]))

    def eager() -> None:
        """As PyTorch runs it unless told that channels lie side by side."""
        with torch.inference_mode():
            for batch in large:
                torch_encoder.embed(torch_encoder.backbone(torch_encoder.prepare(batch.pixels)))

    contestants: dict[str, Run] = {EAGER: eager} | {runtime: shared_out(runtime) for runtime in runtimes}
    seconds = interleaved(contestants, rounds=rounds, warmup=1, clock=time.process_time)
    return {name: len(images) * cores / taken for name, taken in seconds.items()}


def quality(folder: Path, catalog: Catalog, runtime: str, keep: Path) -> dict[str, float]:
    """R@1, and how well each signal tells a wrong first hit."""
    encoder = open_encoder(folder, runtime=runtime)
    embeddings, catalog, _ = embed_catalog(encoder, catalog, kept_in=keep / "kept" / runtime)
    codes = torch.from_numpy(catalog.codes)
    itself = torch.arange(len(codes)).numpy()
    found = neighbours("means", embeddings, embeddings, DEPTH, itself=itself)
    wrong = codes[found.rows[:, 0]] != codes
    signals = uncertainty_signals(embeddings, embeddings, found, by_means=found, learned=encoder.has_variance)
    figures = {f"AUROC {name}": auroc(signal, wrong) for name, signal in signals.items()}
    return {"R@1": float((~wrong).double().mean()), **figures}


def all_quality(folder: Path, catalog: Catalog, keep: Path, console: Console) -> dict[str, Any]:
    found = {}
    for runtime in ("onnx-int8", "onnx", "torch"):  # the slowest last
        found[runtime] = quality(folder, catalog, runtime, keep)
        console.print(runtime, {name: round(value, 4) for name, value in found[runtime].items()})
    least = {name: found["onnx-int8"][name] - found["torch"][name] for name in found["torch"]}
    return {**found, "int8 - torch": least}


def show_speed(name: str, speeds: dict[str, float], console: Console) -> dict[str, Any]:
    """As ratios to plain PyTorch with batches of 8."""
    eager = speeds[EAGER]
    table = Table(name, "images/s", "ratio")
    for contestant, rate in speeds.items():
        table.add_row(contestant, f"{rate:.1f}", f"{rate / eager:.2f}")
    console.print(table)
    ratios = {contestant: rate / eager for contestant, rate in speeds.items()}
    return {"images per second": speeds, "ratio": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    default = os.environ.get("SUREFIND_DATA", "data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--model", type=Path, help="a trained model, judged beside ResNet-50")
    parser.add_argument("--only", choices=("speed", "quality"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--images", type=int, help="of the test part; all unless given")
    parser.add_argument("--keep", type=Path, default=Path(".cache/onnx"))
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    if not (options.data / "weights").exists():
        sys.exit(f"{options.data} is missing: name the folder of photos and weights with --data")
    console = Console()
    splits = sf.open_dataset(f"cub200:{options.data / 'cub200-2010'}", val_share=0)
    folders = {name: made_model(name, splits, options.data, options.keep) for name in BACKBONES}
    results: dict[str, Any] = {"export": {}, "speed": {}, "quality": {}}
    if options.model is not None:
        copy = options.keep / "trained"  # the export goes there, not into somebody's model
        sf.Encoder.load(options.model).save(copy)
        folders["trained"] = copy
    for name, folder in folders.items():
        results["export"][name] = exported(folder, splits)
        console.print(name, results["export"][name])
    if options.only != "quality":
        for name in BACKBONES:
            found = speed(folders[name], rounds=options.rounds)
            results["speed"][name] = show_speed(name, found, console)
    if options.only != "speed":
        test = splits.test
        if options.images is not None:
            test = test.select(evenly(len(test), options.images))
        for name in ("trained", "ResNet-50"):
            if name in folders:
                console.print(name)
                keep = options.keep
                results["quality"][name] = all_quality(folders[name], test, keep, console)
    write(results, options.output)


if __name__ == "__main__":
    main()
