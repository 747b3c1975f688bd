"""Limits on concurrent requests and on the size and duration of uploads."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from starlette.requests import ClientDisconnect, Request

from surefind.serve.errors import RETRY, Refused


class Admission:
    """Limit on requests in flight. Used by the event loop only, so it needs no lock."""

    def __init__(self, limit: int) -> None:
        self.limit, self.in_flight = limit, 0

    def check(self) -> None:
        """Raise Refused if the limit is reached, before the body of a request is read."""
        if self.in_flight >= self.limit:
            raise Refused(503, f"all {self.limit} request slots are in use", fix=RETRY)

    @contextmanager
    def slot(self) -> Iterator[None]:
        self.check()
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1


class UploadBudget:
    """Limit on the bytes of all uploads together. Used by the event loop only."""

    def __init__(self, total_bytes: int, seconds: float) -> None:
        self.total_bytes, self.seconds, self.held = total_bytes, seconds, 0

    @asynccontextmanager
    async def read(self, request: Request, *, most: int) -> AsyncIterator[bytes]:
        """Read a body of at most `most` bytes; its bytes count until the context ends."""
        fix = "send a smaller file, e.g. a JPEG"
        too_long = Refused(413, f"the body is longer than {most:,} bytes", fix=fix)
        # Before `100 Continue` is sent. The server has refused lengths that are not numbers.
        if int(request.headers.get("content-length", 0)) > most:
            raise too_long
        body, more = bytearray(), True  # a list of tiny pieces would need 20 times the memory
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
                            raise Refused(503, "too many uploads at a time", fix=RETRY)
                        self.held += len(piece)
                        body += piece
            except TimeoutError:
                problem = f"the body did not arrive within {self.seconds:g} seconds"
                raise Refused(408, problem, fix=fix) from None
            yield bytes(body)
        finally:
            self.held -= len(body)
