"""What encoding costs beside decoding and the network alone, and what the heads add to it.

python benchmarks/encode.py [--data DATA] [--images 1000]      ratios, and a JSON file
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

from surefind.encoders import Encoder, EncoderConfig
from surefind.encoders.image_encoder import on_cores, single_core_pool
from surefind.images.loader import Batch, Loader

Run = Callable[[], object]
RESULTS = Path(__file__).parent / "results"
SIZES = {"224 x 224": None, "500 x 375": (500, 375)}
SMALL, LARGE = 4, 64  # images at once: per core, and by all cores together


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


def throughput(encoder: Encoder, files: list[Path], *, rounds: int) -> dict[str, float]:
    """Images per second of each part alone and of all together."""
    size, cores = encoder.preprocessing.size, torch.get_num_threads()
    pixels = torch.randint(256, (len(files), 3, size, size), dtype=torch.uint8)
    small = [Batch(torch.empty(0), list(part)) for part in pixels.split(SMALL)]
    large = [Batch(torch.empty(0), list(part)) for part in pixels.split(LARGE)]
    contestants: dict[str, Run] = {
        "decode": lambda: list(Loader(files, encoder.resize, batch_size=LARGE)),
        "network, batches of 64": lambda: [encoder.embed_batch(batch) for batch in large],
        "network, shared out": lambda: list(on_cores(cores, small, encoder.embed_batch)),
        "encode": lambda: encoder.encode(files),
    }
    seconds = interleaved(contestants, rounds=rounds, warmup=1)
    return {name: len(files) / taken for name, taken in seconds.items()}


def heads_share(encoder: Encoder, images: int, *, rounds: int) -> float:
    """Time of the heads as a share of the backbone's, whose features they get fresh."""
    pixels = torch.randn(images, 3, 224, 224)
    shares = []
    with torch.inference_mode():
        for _ in range(1 + rounds):
            start = time.perf_counter()
            features = encoder.features(pixels)
            between = time.perf_counter()
            encoder.embed(features)
            shares.append((time.perf_counter() - between) / (between - start))
    return statistics.median(shares[1:])


def heads_shares(name: str, *, rounds: int) -> dict[str, float]:
    encoder = Encoder.create(EncoderConfig(backbone=name)).eval()
    with single_core_pool(1) as pool:
        few = pool.submit(heads_share, encoder, SMALL, rounds=rounds).result()
    many = heads_share(encoder, LARGE, rounds=rounds)
    return {f"{SMALL} images, one core": few, f"{LARGE} images, all cores": many}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = os.environ.get("SUREFIND_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "encode.json")
    options = parser.parse_args()
    weights = options.data / "weights" / "mobilenetv2_100.safetensors"
    if not weights.exists():
        sys.exit(f"{weights} is missing: name the folder of photos and weights with --data")

    config = EncoderConfig(backbone="mobilenetv2_100")
    encoder = Encoder.create(config, weights=weights).eval()
    table = Table("JPEG", "decode", "network 64", "network shared", "encode", "ratio")
    speeds = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, files in pictures(options.data, options.images, Path(folder)).items():
            speed = throughput(encoder, files, rounds=options.rounds)
            speed["ratio to the slower part"] = speed["encode"] / min(speed["decode"], speed["network, batches of 64"])
            speeds[name] = speed
            table.add_row(name, *(f"{value:.2f}" for value in speed.values()))
    Console().print("MobileNetV2 at 224, images per second", table)
    heads = {name: heads_shares(name, rounds=5 * options.rounds) for name in ("mobilenetv2_100", "resnet50")}
    for name, shares in heads.items():
        for setting, share in shares.items():
            Console().print(f"heads beside {name}, {setting}: {share:.2%} of its time")
    size = {"images": options.images, "rounds": options.rounds}
    write({**size, "images per second": speeds, "heads / backbone": heads}, options.output)


if __name__ == "__main__":
    main()
