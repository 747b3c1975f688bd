"""What encoding costs beside decoding and the network alone, and a training step in pieces and whole.

python benchmarks/encode.py [--data DATA] [--images 1000]      ratios, and a JSON file

CPU time of all threads, so that other programs hardly matter; rates are of all cores. Threads that wait for
one another spin, which costs more where a core is taken: run it alone.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from measure import interleaved, write
from PIL import Image
from rich.console import Console
from rich.table import Table

import surefind as sf
from surefind.distributed import ProcessGroup
from surefind.encoders import Encoder, EncoderConfig
from surefind.encoders.image_encoder import on_cores, single_core_pool
from surefind.images.loader import Batch, Loader
from surefind.training.build import train_mode
from surefind.training.gradient_cache import backward, in_pieces

RESULTS = Path(__file__).parent / "results"
SIZES = {"224 x 224": None, "500 x 375": (500, 375)}
MODELS = {
    "MobileNetV2": ("mobilenetv2_100", "mobilenetv2_100.safetensors"),
    "ResNet-50": ("resnet50_v1", "resnet50_v1_fp16.safetensors"),
}
HEADS_ROUNDS = 5
STEP = 32  # images of a training step


def pictures(data: Path, count: int, folder: Path) -> dict[str, list[Path]]:
    """The same photos as they are, and enlarged to the size of a usual one."""
    files = sorted((data / "cub200-2010" / "images").rglob("*.jpg"))[:count]
    found = {}
    for name, size in SIZES.items():
        found[name] = files
        if size is not None:
            found[name] = [folder / f"{number}.jpg" for number in range(len(files))]
            for file, target in zip(files, found[name], strict=True):
                with Image.open(file) as image:
                    image.convert("RGB").resize(size).save(target, quality=90)
    return found


def rates(contestants: dict[str, Callable[[], object]], images: int, rounds: int) -> dict[str, float]:
    """Images per second of all cores."""
    seconds = interleaved(contestants, rounds=rounds, warmup=1, clock=time.process_time)
    return {name: images * torch.get_num_threads() / taken for name, taken in seconds.items()}


def throughput(encoder: Encoder, files: list[Path], *, rounds: int) -> dict[str, float]:
    """Images per second of each part alone and of all together."""
    size, cores = encoder.preprocessing.size, torch.get_num_threads()
    pixels = torch.randint(256, (len(files), 3, size, size), dtype=torch.uint8)
    batches = [Batch(torch.empty(0), list(part)) for part in pixels.split(encoder.largest_batch)]
    many = encoder.for_many()
    speed = rates(
        {
            "decode": lambda: list(Loader(files, encoder.resize)),
            "network, with batch norm": lambda: list(on_cores(cores, batches, lambda: encoder)),
            "network": lambda: list(on_cores(cores, batches, lambda: many)),
            "encode": lambda: encoder.encode(files),
        },
        len(files),
        rounds,
    )
    both = 1 / (1 / speed["decode"] + 1 / speed["network"])  # all that cores that are never idle can reach
    slower = min(speed["decode"], speed["network"])
    return speed | {"ratio to the slower part": speed["encode"] / slower, "of the most possible": both / slower}


def training_step(encoder: Encoder, *, rounds: int) -> dict[str, float]:
    """Images per second of gradients, embedded in pieces, in chunks (twice) or all at once."""
    train_mode(encoder, batch_norm="frozen")
    pixels = encoder.prepare(torch.randint(256, (STEP, 3, 224, 224), dtype=torch.uint8))
    labels, criterion = torch.arange(STEP) // 4, sf.losses.BayesianTripletLoss()

    def step(embed: Callable[[torch.Tensor], sf.Gaussians], chunk: int) -> Callable[[], object]:
        return lambda: backward(
            embed,
            pixels,
            lambda embeddings: criterion(embeddings, labels),
            chunk=chunk,
            group=ProcessGroup(),
            module=encoder,
        )

    embed, size = encoder.embed_pixels, encoder.cores * encoder.largest_batch
    steps = {"whole": step(embed, 0), "pieces": step(in_pieces(embed, size), 0), "chunks": step(embed, size)}
    return rates(steps, STEP, rounds)


def heads_share(encoder: Encoder, images: int) -> float:
    """Time of the heads as a share of the backbone's, whose features they get fresh."""
    pixels = torch.randn(images, 3, 224, 224)
    shares = []
    with torch.inference_mode():
        for _ in range(1 + HEADS_ROUNDS):
            start = time.perf_counter()
            features = encoder.features(pixels)
            between = time.perf_counter()
            encoder.embed(features)
            shares.append((time.perf_counter() - between) / (between - start))
    return statistics.median(shares[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    default = os.environ.get("SUREFIND_DATA", "data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--few", type=int, default=1000, help="of these, for ResNet-50")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "encode.json")
    options = parser.parse_args()
    if not (options.data / "weights").exists():
        sys.exit(f"{options.data} is missing: name the folder of photos and weights with --data")
    table = Table("model, JPEG", "decode", "network, BN", "network", "encode", "ratio", "possible")
    speeds: dict[str, dict[str, dict[str, float]]] = {}
    steps, heads = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        photos = pictures(options.data, options.images, Path(folder))
        for model, (backbone, weights) in MODELS.items():
            encoder = Encoder.create(EncoderConfig(backbone), weights=options.data / "weights" / weights).eval()
            speeds[model] = {}
            for size, files in photos.items():
                some = files[: options.few] if model == "ResNet-50" else files
                speeds[model][size] = speed = throughput(encoder, some, rounds=options.rounds)
                table.add_row(f"{model}, {size}", *(f"{value:.2f}" for value in speed.values()))
            with single_core_pool(1) as pool:
                heads[model] = pool.submit(heads_share, encoder, encoder.largest_batch).result()
            steps[model] = training_step(encoder, rounds=options.rounds)
    Console().print("224 px, images per second", table)
    for model in MODELS:
        ratio = steps[model]["pieces"] / steps[model]["whole"]  # as training does it; chunks save memory
        Console().print(f"{model}: heads {heads[model]:.2%} of its time; a step in pieces {ratio:.2f} times as fast")
    size = {"images": options.images, "rounds": options.rounds}
    found = {"images per second": speeds, "training": steps, "heads / backbone": heads}
    write({**size, **found}, options.output)


if __name__ == "__main__":
    main()
