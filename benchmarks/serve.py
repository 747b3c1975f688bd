"""How quick a service is, and what it does when it is asked for more than it can answer.

python benchmarks/serve.py [--quick] [--minutes 1]              table, and a JSON file
python benchmarks/serve.py --index FOLDER --photos FOLDER       an index that is there already

A real process of `surefind serve`, asked by 16 clients and by one, in turns with encoding the same
photos in this process. Rates count the work of the clients and other work of the machine against
the service; processor time does not.
"""

import argparse
import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import Coroutine, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np
from measure import write
from rich.console import Console
from rich.table import Table
from serve_load import Reply, Serving, crowd, flood, made_up_index, photos_in, post, pulse, serving

from surefind.encoders.image_encoder import ImageEncoder
from surefind.search.index import Index

RESULTS = Path(__file__).parent / "results"
CLIENTS = 16
WARM_UP = 2.0  # seconds
REFUSALS = ("slots are in use", "at a time")  # how refusals before any work end


def encode(encoder: ImageEncoder, photos: Sequence[bytes], seconds: float) -> dict[str, float]:
    """Decode and embed, nothing else."""
    begun, cpu, done = perf_counter(), process_time(), 0
    while perf_counter() < begun + seconds:
        done += len(encoder.encode(photos))
    return {"per_second": done / (perf_counter() - begun), "cpu_ms": 1000 * (process_time() - cpu) / done}


def ask(service: Serving, load: Coroutine[Any, Any, list[Reply]]) -> tuple[list[Reply], dict[str, Any], list[float]]:
    """Return the replies, what they cost, and the service's memory in between."""

    async def run() -> tuple[list[Reply], tuple[list[Reply], list[float]]]:
        watching = asyncio.create_task(pulse(service.port, service.memory))
        replies = await load
        watching.cancel()
        return replies, await watching

    begun, own, cpu = perf_counter(), process_time(), service.cpu()
    replies, (health, memory) = asyncio.run(run())
    taken, own, cpu = perf_counter() - begun, process_time() - own, service.cpu() - cpu
    done = sum(reply.status == 200 for reply in replies)
    facts = {
        "per_second": done / taken,
        "cpu_ms": 1000 * cpu / max(done, 1),
        "clients_cpu_ms": 1000 * own / max(done, 1),
        "not answered": len(replies) - done,
        "health_ms": [1000 * reply.seconds for reply in health],
        "health_failed": sum(reply.status != 200 for reply in health),
    }
    return replies, facts, memory


def quiet(replies: Sequence[Reply]) -> dict[str, float]:
    """Median milliseconds of one request, of its parts, and of all but decode and encode."""
    told = [json.loads(reply.body)["seconds"] for reply in replies]
    found = {part: 1000 * median(one[part] for one in told) for part in ("decode", "wait", "encode", "search")}
    added = (one.seconds - own["decode"] - own["encode"] for one, own in zip(replies, told, strict=True))
    return {**found, "whole": 1000 * median(one.seconds for one in replies), "added": 1000 * median(added)}


def overload(service: Serving, requests: Sequence[bytes], rate: float, seconds: float) -> dict[str, Any]:
    replies, facts, memory = ask(service, flood(service.port, requests, rate=rate, seconds=seconds))
    refused = [reply for reply in replies if reply.status == 503]
    why = Counter(json.loads(one.body)["error"]["problem"] for one in refused)
    third = max(1, len(memory) // 3)
    return {
        "per_second": rate,
        "seconds": seconds,
        "statuses": dict(Counter(reply.status for reply in replies)),
        "not answered because": dict(why),
        "refused without Retry-After": sum(not (one.retry_after or b"").isdigit() for one in refused),
        "taken but not answered": facts["not answered"] - sum(n for text, n in why.items() if text.endswith(REFUSALS)),
        "answered, ms": percentiles([1000 * reply.seconds for reply in replies if reply.status == 200]),
        "health, ms": percentiles(facts["health_ms"]) | {"failed": facts["health_failed"]},
        "memory, MB": {
            "first third": median(memory[:third]), "last third": median(memory[-third:]), "most": max(memory),
        },
    }  # fmt: skip


def percentiles(values: Sequence[float]) -> dict[str, float]:
    p50, p99 = np.percentile(values, (50, 99)) if values else (np.nan, np.nan)
    return {"p50": float(p50), "p99": float(p99)}


def measure(index: Path, photos: Sequence[bytes], *, rounds: int, seconds: float, minutes: float) -> dict[str, Any]:
    requests = [post(photo) for photo in photos]
    with Index.open(index) as opened:
        encoder = opened.encoder
    encoder.encode(photos)
    bare, served, alone = [], [], list[Reply]()
    with serving(index) as service:
        asyncio.run(crowd(service.port, requests, clients=CLIENTS, seconds=WARM_UP))
        for _ in range(rounds):
            bare.append(encode(encoder, photos, seconds))
            served.append(ask(service, crowd(service.port, requests, clients=CLIENTS, seconds=seconds))[1])
            alone += asyncio.run(crowd(service.port, requests, clients=1, seconds=seconds / 4))
            print(f"bare {bare[-1]['per_second']:.1f} /s, served {served[-1]['per_second']:.1f} /s", flush=True)
        rate = 2 * median(one["per_second"] for one in served)
        over = overload(service, requests, rate, 60 * minutes)
    pairs = list(zip(served, bare, strict=True))
    health = percentiles([value for one in served for value in one.pop("health_ms")])
    return {
        "bare": bare,
        "served": served,
        "ratio": median(ours["per_second"] / theirs["per_second"] for ours, theirs in pairs),
        "cpu_ratio": median(theirs["cpu_ms"] / ours["cpu_ms"] for ours, theirs in pairs),
        "not answered": sum(one["not answered"] for one in served),
        "health, ms": health | {"failed": sum(one["health_failed"] for one in served)},
        "quiet, ms": quiet(alone),
        "overload": over,
    }


def show(found: dict[str, Any]) -> None:
    table = Table("", "measured", "target")
    one, over = found["quiet, ms"], found["overload"]
    rates = (median(each["per_second"] for each in found[name]) for name in ("bare", "served"))
    table.add_row("images/s: bare encoding, 16 clients", ", ".join(f"{rate:.1f}" for rate in rates))
    table.add_row("  ratio", f"{found['ratio']:.2f}", ">= 0.85")
    table.add_row("  ratio by processor time of the service", f"{found['cpu_ratio']:.2f}")
    table.add_row("  not answered", str(found["not answered"]), "0")
    table.add_row("/healthz meanwhile, p99", f"{found['health, ms']['p99']:.1f} ms", "< 50 ms")
    table.add_row("one client, p50", f"{one['whole']:.1f} ms")
    table.add_row("  beyond decode and encode", f"{one['added']:.1f} ms", "<= 5 ms")
    table.add_row(f"asked for {over['per_second']:.0f} /s, {over['seconds']:.0f} s", str(over["statuses"]))
    table.add_row("  taken but not answered", str(over["taken but not answered"]), "0")
    table.add_row("  without Retry-After", str(over["refused without Retry-After"]), "0")
    table.add_row("  memory, MB", str({name: round(value) for name, value in over["memory, MB"].items()}), "flat")
    table.add_row("  /healthz p99", f"{over['health, ms']['p99']:.1f} ms", "< 50 ms")
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", type=Path, help="with --photos; else one is made up")
    parser.add_argument("--photos", type=Path, help="JPEGs that are sent")
    parser.add_argument("--quick", action="store_true", help="short rounds, six seconds of overload")
    parser.add_argument("--minutes", type=float, help="of overload; 1, or 0.1 with --quick")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", "--json", type=Path, default=RESULTS / "serve.json")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the service ends as well
    if (given.index is None) != (given.photos is None):
        sys.exit("--index and --photos go together")
    seconds, minutes = (4.0, 0.1) if given.quick else (15.0, 1.0)
    with TemporaryDirectory() as folder:
        index = given.index or made_up_index(Path(folder))
        photos = photos_in(given.photos or Path(folder) / "queries")
        if not photos:
            sys.exit(f"no JPEG below {given.photos}")
        found = measure(index, photos, rounds=given.rounds, seconds=seconds, minutes=given.minutes or minutes)
    show(found)
    settings = {"index": "made up" if given.index is None else given.index.name, "rounds": given.rounds}
    write({"settings": {**settings, "quick": given.quick}, **found}, given.output)


if __name__ == "__main__":
    main()
