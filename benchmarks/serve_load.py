"""Many clients of one service in a single thread, doing little: the service needs the cores."""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

STALE = 20.0  # seconds after which an idle connection is not trusted; the service ends it at 30
HEALTH_EVERY = 0.02
MEMORY_EVERY = 0.5
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
METRICS = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


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
            if self._streams is None:
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
        retry_after = _header(head, b"retry-after")
        return Reply(int(head[9:12]), self.used - begun, retry_after, body)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def post(photo: bytes) -> bytes:
    head = f"POST /v1/search?k=12 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(photo)}\r\n"
    return head.encode() + b"Content-Type: image/jpeg\r\n\r\n" + photo


async def crowd(port: int, requests: Sequence[bytes], *, clients: int, seconds: float) -> tuple[list[Reply], float]:
    """Each client asks again as soon as it is answered; all replies, and the seconds they took."""
    begun, turn = perf_counter(), itertools.cycle(requests)
    each = (_keep_asking(port, turn, begun + seconds) for _ in range(clients))
    replies = [reply for some in await asyncio.gather(*each) for reply in some]
    return replies, perf_counter() - begun


async def flood(
    port: int, requests: Sequence[bytes], *, rate: float, seconds: float, note: Callable[[Reply], None]
) -> None:
    """Requests begin at a fixed rate, whatever comes back."""
    begun, turn, idle = perf_counter(), itertools.cycle(requests), list[Connection]()

    async def ask_once() -> None:
        connection = _fresh(idle) or Connection(port)
        note(await connection.ask(next(turn)))
        idle.append(connection)

    async with asyncio.TaskGroup() as running:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(begun + number / rate - perf_counter())
            running.create_task(ask_once())
    for connection in idle:
        connection.close()


class Pulse(NamedTuple):
    """What was seen of a service that was busy with others."""

    health: list[float]  # seconds of /healthz
    failed: int  # of /healthz
    late: list[float]  # seconds that our own clock rang too late: so much is not the service's
    memory: list[float]  # of the service, MB


async def pulse(port: int, memory: Callable[[], float], ended: asyncio.Event) -> Pulse:
    """Until it has ended; over a connection of its own."""
    connection, seen = Connection(port), Pulse([], 0, [], [])
    failed, due, next_look = 0, perf_counter(), 0.0
    while not ended.is_set():
        await asyncio.sleep(due - perf_counter())
        begun = perf_counter()
        seen.late.append(begun - due)
        reply = await connection.ask(HEALTH)
        seen.health.append(reply.seconds)
        failed += reply.status != 200
        if begun >= next_look:
            seen.memory.append(memory())
            next_look = begun + MEMORY_EVERY
        due = max(due + HEALTH_EVERY, perf_counter())
    connection.close()
    return seen._replace(failed=failed)


async def _keep_asking(port: int, requests: Iterator[bytes], until: float) -> list[Reply]:
    connection, replies = Connection(port), list[Reply]()
    while perf_counter() < until:
        replies.append(await connection.ask(next(requests)))
    connection.close()
    return replies


def _fresh(idle: list[Connection]) -> Connection | None:
    """The one that was used last; those that may be ended any moment are closed."""
    if not idle:
        return None
    latest = idle.pop()
    if perf_counter() - latest.used > STALE:
        latest.close()
    return latest


def _header(head: bytes, name: bytes) -> bytes | None:
    _, found, rest = head.partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].strip() if found else None


def answered(replies: Iterable[Reply]) -> list[Reply]:
    return [reply for reply in replies if reply.status == 200]
