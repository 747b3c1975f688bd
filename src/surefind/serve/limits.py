"""How many requests are worked on at a time, and how much and how long they may upload."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import perf_counter

from starlette.requests import ClientDisconnect, Request

from surefind.serve.errors import Refused

LONGEST_PAUSE = 30  # seconds that a client is asked to stay away
UPLOAD_PAUSE = 2  # the same while there are too many uploads
LATER = "ask again after the seconds that Retry-After names"
WEIGHT = 0.1  # of the latest answer in the usual time between answers


class Admission:
    """Places for questions. Used by the event loop alone, so that it needs no lock."""

    def __init__(self, places: int) -> None:
        self.places, self.taken = places, 0
        self._between = 0.1  # seconds from one answer to the next
        self._last: float | None = None

    def check(self) -> None:
        """Refuse now what would be refused after its body was read."""
        if self.taken >= self.places:
            raise self.busy(f"all {self.places} places are taken")

    @contextmanager
    def place(self) -> Iterator[None]:
        self.check()
        self.taken += 1
        try:
            yield
            now = perf_counter()
            if self._last is not None:
                self._between += WEIGHT * (now - self._last - self._between)
            self._last = now
        finally:
            self.taken -= 1
            if not self.taken:
                self._last = None  # idle time says nothing about the work

    def busy(self, problem: str) -> Refused:
        """A refusal that says when to come back."""
        wait = min(LONGEST_PAUSE, max(1, math.ceil(self.taken * self._between)))
        return Refused(503, problem, fix=LATER, retry_after=wait)


class UploadBudget:
    """Bytes that all uploads hold together. Used by the event loop alone: it needs no lock."""

    def __init__(self, total_bytes: int, seconds: float) -> None:
        self.total_bytes, self.seconds, self.held = total_bytes, seconds, 0

    @asynccontextmanager
    async def read(self, request: Request, *, most: int) -> AsyncIterator[bytes]:
        """Read a body of at most `most` bytes, counted as they come and held until the end."""
        fix = "send a smaller file, e.g. a JPEG"
        too_long = Refused(413, f"the body is longer than {most:,} bytes", fix=fix)
        # Before the client is told to go on. Lengths that are no numbers never come so far.
        if int(request.headers.get("content-length", 0)) > most:
            raise too_long
        body, more = bytearray(), True  # a list of tiny pieces would cost twentyfold
        busy = Refused(503, "too many uploads at a time", fix=LATER, retry_after=UPLOAD_PAUSE)
        try:
            try:
                async with asyncio.timeout(self.seconds):
                    while more:
                        message = await request.receive()
                        if message["type"] == "http.disconnect":
                            raise ClientDisconnect
                        piece, more = message.get("body", b""), message.get("more_body", False)
                        if len(body) + len(piece) > most:
                            raise too_long
                        if self.held + len(piece) > self.total_bytes:
                            raise busy
                        self.held += len(piece)
                        body += piece
            except TimeoutError:
                problem = f"the body did not arrive within {self.seconds:g} seconds"
                raise Refused(408, problem, fix=fix) from None
            yield bytes(body)
        finally:
            self.held -= len(body)
