"""What is asked of a service: alone, in a crowd, and by more than it can answer."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Sequence
from time import process_time
from typing import NamedTuple, TypeVar

import numpy as np
from serve_load import METRICS, Connection, Pulse, Reply, answered, crowd, flood, pulse
from serve_process import Serving

CLIENTS = 16
STAGES = ("decode", "wait", "encode", "search")
REFUSALS = ("slots are in use", "at a time")  # how those end that came before any work
T = TypeVar("T")


class Crowded(NamedTuple):
    """A while with many clients that each wait for their answer."""

    replies: list[Reply]
    seconds: float
    pulse: Pulse
    own: float  # cores that asking took
    service: float  # cores that answering took

    @property
    def rate(self) -> float:
        return len(answered(self.replies)) / self.seconds


class Flooded(NamedTuple):
    """A while with more requests than can be answered."""

    asked: float  # requests a second
    seconds: float
    statuses: Counter[int]
    because: Counter[str]  # what was said to those that were not answered
    without_pause: int  # refusals that do not say when to come back
    lost: int  # taken and not answered, or answered in any other way
    waited: list[float]  # seconds of those that were answered
    pulse: Pulse


def crowded(service: Serving, requests: Sequence[bytes], seconds: float) -> Crowded:
    async def run() -> Crowded:
        own, cpu = process_time(), service.cpu()
        load = crowd(service.port, requests, clients=CLIENTS, seconds=seconds)
        (replies, taken), seen = await _with_pulse(service, load)
        own, cpu = process_time() - own, service.cpu() - cpu
        return Crowded(replies, taken, seen, own / taken, cpu / taken)

    return asyncio.run(run())


def alone(service: Serving, requests: Sequence[bytes], seconds: float) -> list[Reply]:
    """One request after the other over one connection."""
    return asyncio.run(crowd(service.port, requests, clients=1, seconds=seconds))[0]


def flooded(service: Serving, requests: Sequence[bytes], rate: float, *, seconds: float) -> Flooded:
    statuses, because, waited = Counter[int](), Counter[str](), list[float]()
    without_pause = lost = 0

    def note(reply: Reply) -> None:
        nonlocal without_pause, lost
        statuses[reply.status] += 1
        if reply.status == 200:
            waited.append(reply.seconds)
            return
        problem = _problem(reply)
        because[problem] += 1
        refused = reply.status == 503
        without_pause += refused and not (reply.retry_after or b"").isdigit()
        lost += not refused or not problem.endswith(REFUSALS)

    load = flood(service.port, requests, rate=rate, seconds=seconds, note=note)
    _, seen = asyncio.run(_with_pulse(service, load))
    return Flooded(rate, seconds, statuses, because, without_pause, lost, waited, seen)


def stages_of(replies: Sequence[Reply]) -> dict[str, float]:
    """Mean milliseconds of each stage, of what is left of the time, and of all of it."""
    good = answered(replies)
    told = [json.loads(reply.body)["seconds"] for reply in good]
    means = {stage: 1000 * float(np.mean([one[stage] for one in told])) for stage in STAGES}
    whole = 1000 * float(np.mean([reply.seconds for reply in good]))
    return {**means, "rest": whole - sum(means.values()), "whole": whole}


def batch_sizes(service: Serving) -> dict[str, float]:
    """Mean number of questions that were answered together since it started."""
    page = asyncio.run(Connection(service.port).ask(METRICS)).body.decode()
    found = {
        (what, stage): float(value)
        for what, stage, value in re.findall(r'surefind_batch_size_(sum|count)\{stage="(\w+)"\} (\S+)', page)
    }
    return {stage: found["sum", stage] / max(1.0, found["count", stage]) for what, stage in found if what == "sum"}


async def _with_pulse(service: Serving, load: Awaitable[T]) -> tuple[T, Pulse]:
    ended = asyncio.Event()
    watching = asyncio.create_task(pulse(service.port, service.memory, ended))
    result = await load
    ended.set()
    return result, await watching


def _problem(reply: Reply) -> str:
    try:
        return str(json.loads(reply.body)["error"]["problem"])
    except (ValueError, KeyError):
        return reply.body.decode(errors="replace")
