"""How quick a service is, and what it does when it is asked for more than it can answer.

python benchmarks/serve.py [--quick] [--minutes 10]              table, and a JSON file
python benchmarks/serve.py --index FOLDER --photos FOLDER        an index that is there already

Real processes of `surefind serve`. One image at a time is `--workers 1 --batch 1`, on all cores or
on one, where threads do not get into each other's way; these and the usual settings are asked in
turns. Without an index, one of made-up photos is built.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from measure import write
from serve_gallery import Asked, made_up_gallery, photos_in
from serve_load import post
from serve_phases import Crowded, alone, batch_sizes, crowded, flooded
from serve_process import Serving, serving
from serve_table import Row, health, overload, show, throughput, time_spent

from surefind.encoders.image_encoder import ImageEncoder
from surefind.search.index import Index

RESULTS = Path(__file__).parent / "results"
ONE_BY_ONE = ("--workers", 1, "--batch", 1)
WARM_UP = 2.0  # seconds


def bare_rate(encoder: ImageEncoder, photos: Sequence[bytes], seconds: float) -> float:
    """Images a second of `encode` in this process: decoded and embedded, nothing else."""
    begun, done = perf_counter(), 0
    while perf_counter() < begun + seconds:
        done += len(encoder.encode(photos))
    return done / (perf_counter() - begun)


def rounds_of(
    services: dict[str, Serving], asked: Asked, *, rounds: int, seconds: float
) -> tuple[dict[str, list[Crowded]], list[float]]:
    """In turns, so that noise of the machine hits all alike; one is asked at a time."""
    requests = [post(photo) for photo in asked.photos]
    with Index.open(asked.folder) as index:
        encoder = index.encoder
    for service in services.values():
        crowded(service, requests, WARM_UP)
    found: dict[str, list[Crowded]] = {name: [] for name in services}
    bare: list[float] = []
    for _ in range(rounds):
        bare.append(bare_rate(encoder, asked.photos, seconds))
        print(f"bare encoding: {bare[-1]:.1f} /s", flush=True)
        for name, service in services.items():
            found[name].append(crowded(service, requests, seconds))
            print(f"{name}: {found[name][-1].rate:.1f} /s", flush=True)
    return found, bare


def measure(asked: Asked, arguments: argparse.Namespace) -> tuple[list[Row], dict[str, Any]]:
    requests = [post(photo) for photo in asked.photos]
    seconds = 4.0 if arguments.quick else 15.0
    minutes = arguments.minutes or (0.5 if arguments.quick else 10.0)
    with (
        serving(asked.folder) as together,
        serving(asked.folder, *ONE_BY_ONE) as by_one,
        serving(asked.folder, *ONE_BY_ONE, threads=1) as on_one_core,
    ):
        services = {"together": together, "one by one": by_one, "on one core": on_one_core}
        found, bare = rounds_of(services, asked, rounds=arguments.rounds, seconds=seconds)
        sizes = batch_sizes(together)
        lone = alone(together, requests, seconds)
        capacity = median(one.rate for one in found["together"])
        print(f"{2 * capacity:.0f} /s for {minutes:g} minutes", flush=True)
        over = flooded(together, requests, 2 * capacity, seconds=60 * minutes)
    parts = {
        "throughput": throughput(found, bare, sizes),
        "health": health(found),
        "time": time_spent(lone, found["together"]),
        "overload": overload(over),
    }
    rows = [row for some, _ in parts.values() for row in some]
    return rows, {name: told for name, (_, told) in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", type=Path, help="with --photos; else one is made up")
    parser.add_argument("--photos", type=Path, help="JPEGs that are sent")
    parser.add_argument("--quick", action="store_true", help="short rounds, half a minute too much")
    parser.add_argument("--minutes", type=float, help="of overload; 10, or 0.5 with --quick")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", "--json", type=Path, default=RESULTS / "serve.json")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the services end as well
    if (arguments.index is None) != (arguments.photos is None):
        sys.exit("--index and --photos go together")
    with TemporaryDirectory() as folder:
        if arguments.index is None:
            asked = made_up_gallery(Path(folder))
        else:
            asked = Asked(arguments.index, photos_in(arguments.photos))
        if not asked.photos:
            sys.exit(f"no JPEG below {arguments.photos}")
        rows, told = measure(asked, arguments)
    show(rows)
    settings = {
        "index": "made up" if arguments.index is None else arguments.index.name,
        "rounds": arguments.rounds,
        "quick": arguments.quick,
    }
    write({"settings": settings, **told}, arguments.output)


if __name__ == "__main__":
    main()
