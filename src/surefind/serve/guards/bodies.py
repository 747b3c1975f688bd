"""Bodies of requests: how long one may be, how long it may take, and how much all may hold."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from starlette.requests import ClientDisconnect, Request

from surefind.serve.guards.refused import Refused

PAUSE = 2  # seconds that a client is asked to stay away from a full room


class UploadRoom:
    """Bytes that all uploads hold together. Used by the event loop alone: it needs no lock."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes, self.held = total_bytes, 0

    @contextmanager
    def share(self) -> Iterator["Share"]:
        """What is taken of it is given back when the block ends."""
        share = Share(self)
        try:
            yield share
        finally:
            self.held -= share.size


class Share:
    """The bytes of one upload."""

    def __init__(self, room: UploadRoom) -> None:
        self.size, self._room = 0, room

    def take(self, size: int) -> None:
        """So many more bytes, or a refusal: nobody waits for room while holding some."""
        if self._room.held + size > self._room.total_bytes:
            raise Refused(
                503,
                "too many uploads at a time",
                fix="send it again after the seconds that Retry-After names",
                retry_after=PAUSE,
            )
        self._room.held += size
        self.size += size


async def read_body(request: Request, *, most: int, seconds: float, room: UploadRoom) -> bytes:
    """The whole body, of at most so many bytes and within so many seconds."""
    async with uploaded(request, most=most, seconds=seconds, room=room) as body:
        return body


@asynccontextmanager
async def uploaded(
    request: Request, *, most: int, seconds: float, room: UploadRoom
) -> AsyncIterator[bytes]:
    """`read_body` that counts as held until the block ends, for bodies that wait to be used."""
    _check_announced(request, most=most)
    with room.share() as share:
        try:
            async with asyncio.timeout(seconds):
                body = await _read(request, share, most=most)
        except TimeoutError:
            raise Refused(
                408,
                f"the body did not arrive within {seconds:g} seconds",
                fix="send a smaller file, or send it over a faster connection",
            ) from None
        yield body


async def _read(request: Request, share: Share, *, most: int) -> bytes:
    """What was announced is not believed: the bytes are counted as they come."""
    body = bytearray()  # a list of its pieces would cost twentyfold where they are tiny
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        if len(body) + len(piece) > most:
            raise _too_long(most)
        share.take(len(piece))
        body += piece
        if not message.get("more_body", False):
            return bytes(body)


def _check_announced(request: Request, *, most: int) -> None:
    """Before the client is told to go on, and so before it has sent anything."""
    announced = request.headers.get("content-length", "0")
    if not (announced.isascii() and announced.isdigit()):
        raise Refused(400, "the Content-Length is no number", fix="send the number of bytes")
    digits = announced.lstrip("0") or "0"
    # By its length first: int() fails with thousands of digits.
    if len(digits) > len(str(most)) or int(digits) > most:
        raise _too_long(most)


def _too_long(most: int) -> Refused:
    return Refused(
        413, f"the body is longer than {most:,} bytes", fix="send a smaller file, e.g. a JPEG"
    )
