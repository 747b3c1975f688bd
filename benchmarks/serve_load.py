"""A made-up index, `surefind serve` in a process of its own, and many clients of it in one thread."""

import asyncio
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

import surefind as sf
from surefind.encoders import Encoder, EncoderConfig

CLASSES, PER_CLASS, QUERIES_PER_CLASS = 40, 8, 6
SIZES = ((500, 375), (375, 500), (400, 300), (224, 224))
ASKED = 64  # different photos
STALE = 20.0  # seconds after which an idle connection is not trusted; the service ends it at 30
HEALTH_EVERY = 0.1
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def made_up_index(folder: Path) -> Path:
    """Photos of 40 classes, a MobileNetV2 with random weights, calibrated as any other index.

    Random weights tell the classes apart well enough, since each has colours of its own.
    """
    write_photos(folder / "photos", per_class=PER_CLASS, seed=0)
    write_photos(folder / "queries", per_class=QUERIES_PER_CLASS, seed=1)
    torch.manual_seed(0)
    encoder = Encoder.create(EncoderConfig(backbone="mobilenetv2_100")).eval()
    with sf.Index.create(folder / "index", encoder, folder / "photos") as index:
        index.calibrate(folder / "queries", targets=sf.CalibrationTargets(precision=0.8), learn_variance=False)
    return folder / "index"


def photos_in(folder: Path) -> list[bytes]:
    """Some of them, from all over the folder."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    return [path.read_bytes() for path in files[:: max(1, len(files) // ASKED)][:ASKED]]


def write_photos(folder: Path, *, per_class: int, seed: int) -> None:
    """Soft patches in the colours of the class with grain, so that a JPEG is as long as usual."""
    random = np.random.default_rng(seed)
    for number in range(CLASSES):
        (folder / f"class{number:02d}").mkdir(parents=True)
        colours = np.random.default_rng(1000 + number).integers(0, 255, (6, 6, 3))
        for name in range(per_class):
            width, height = SIZES[random.integers(len(SIZES))]
            patches = (colours + random.normal(0, 40, colours.shape)).clip(0, 255).astype(np.uint8)
            large = Image.fromarray(patches).resize((width, height), Image.Resampling.BICUBIC)
            pixels = (np.asarray(large) + random.normal(0, 6, (height, width, 1))).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"class{number:02d}" / f"{name}.jpg", quality=90)


class Serving(NamedTuple):
    """A service on this machine."""

    port: int
    process: int

    def memory(self) -> float:
        """MB that it holds (Linux)."""
        return int(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process}/status").read_text())[0]) / 1024

    def cpu(self) -> float:
        """Seconds of all cores that it has used (Linux)."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(index: Path) -> Iterator[Serving]:
    """Start `surefind serve` as a user does, with all cores; end it with the block."""
    command = [sys.executable, "-m", "surefind", "serve", str(index), "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+:(\d+)", process.stdout.readline())
            if found is None:
                sys.exit("the service does not start")
            yield Serving(int(found[1]), process.pid)
        finally:
            process.terminate()


class Reply(NamedTuple):
    """What one request came to."""

    status: int  # 0: none came
    seconds: float
    retry_after: bytes | None
    body: bytes  # the error, where none came


class Connection:
    """Kept open from request to request, and opened anew where the service ended it."""

    def __init__(self, port: int) -> None:
        self._port, self.used = port, 0.0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> Reply:
        begun = perf_counter()
        try:
            if self._streams is None or begun - self.used > STALE:
                self.close()
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            body = await reader.readexactly(int(_header(head, b"content-length") or 0))
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            self.close()
            return Reply(0, perf_counter() - begun, None, repr(error).encode())
        self.used = perf_counter()
        if _header(head, b"connection") == b"close":
            self.close()
        return Reply(int(head[9:12]), self.used - begun, _header(head, b"retry-after"), body)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def post(photo: bytes) -> bytes:
    head = f"POST /v1/search?k=12 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(photo)}\r\n"
    return head.encode() + b"Content-Type: image/jpeg\r\n\r\n" + photo


async def crowd(port: int, requests: Sequence[bytes], *, clients: int, seconds: float) -> list[Reply]:
    """Each client asks again as soon as it is answered."""
    ends, turn, replies = perf_counter() + seconds, itertools.cycle(requests), list[Reply]()

    async def keep_asking() -> None:
        connection = Connection(port)
        while perf_counter() < ends:
            replies.append(await connection.ask(next(turn)))
        connection.close()

    await asyncio.gather(*(keep_asking() for _ in range(clients)))
    return replies


async def flood(port: int, requests: Sequence[bytes], *, rate: float, seconds: float) -> list[Reply]:
    """Requests begin at a fixed rate, whatever comes back."""
    begun, turn, idle, replies = perf_counter(), itertools.cycle(requests), list[Connection](), list[Reply]()

    async def ask_once() -> None:
        connection = idle.pop() if idle else Connection(port)
        reply = await connection.ask(next(turn))
        replies.append(reply if reply.status != 200 else reply._replace(body=b""))
        idle.append(connection)

    async with asyncio.TaskGroup() as running:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(begun + number / rate - perf_counter())
            running.create_task(ask_once())
    for connection in idle:
        connection.close()
    return replies


async def pulse(port: int, look: Callable[[], float]) -> tuple[list[Reply], list[float]]:
    """Ask /healthz, and look, until cancelled; over a connection of its own."""
    connection, replies, seen = Connection(port), list[Reply](), list[float]()
    try:
        while True:
            replies.append(await connection.ask(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
            seen.append(look())
            await asyncio.sleep(HEALTH_EVERY)
    except asyncio.CancelledError:
        connection.close()
        return replies, seen


def _header(head: bytes, name: bytes) -> bytes | None:
    _, found, rest = head.partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].strip() if found else None
