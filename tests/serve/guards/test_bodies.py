"""Bodies are counted as they come, and leave nothing behind."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from surefind.serve.guards.bodies import UploadRoom, read_body, uploaded
from surefind.serve.guards.refused import Refused

MEGABYTE = 2**20
GIGABYTE = 2**30
PIECE = bytes(2**16)


class Client:
    """Sends one piece after another, and counts what was asked of it."""

    def __init__(self, pieces: list[bytes] | None = None, *, headers: dict[str, str] | None = None):
        self.pieces, self.sent = pieces, 0
        raw = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        self.request = Request({"type": "http", "headers": raw}, self.receive)

    async def receive(self) -> dict[str, Any]:
        if self.pieces is None:  # without end
            self.sent += len(PIECE)
            return {"type": "http.request", "body": PIECE, "more_body": self.sent < GIGABYTE}
        piece = self.pieces.pop(0)
        self.sent += len(piece)
        return {"type": "http.request", "body": piece, "more_body": bool(self.pieces)}


def read(client: Client, *, most: int = MEGABYTE, seconds: float = 20, room=None) -> bytes:
    room = room or UploadRoom(GIGABYTE)
    return asyncio.run(read_body(client.request, most=most, seconds=seconds, room=room))


def refusal(client: Client, **limits: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        read(client, **limits)
    return caught.value


@pytest.mark.parametrize("pieces", [[b""], [b"abc"], [b"a", b"", b"b", b"c"], [b"a"] * 100])
def test_a_body_is_its_pieces(pieces: list[bytes]):
    assert read(Client(list(pieces))) == b"".join(pieces)


def test_a_body_of_just_the_most_is_taken_and_one_byte_more_is_not():
    assert read(Client([b"abc", b"de"]), most=5) == b"abcde"
    assert refusal(Client([b"abc", b"def"]), most=5).status == 413


@pytest.mark.parametrize("announced", ["1048577", "9" * 30, "9" * 10_000, "00001048577"])
def test_a_body_announced_too_long_is_refused_unread(announced: str):
    client = Client(headers={"Content-Length": announced})
    assert refusal(client).status == 413
    assert client.sent == 0


@pytest.mark.parametrize("announced", ["3", "0", "0" * 10_000, "00003"])
def test_a_short_announcement_is_believed_no_further_than_the_bytes(announced: str):
    assert read(Client([b"abc"], headers={"Content-Length": announced})) == b"abc"


@pytest.mark.parametrize("announced", ["abc", "-1", "1e3", "", " 3", "٣", "²"])
def test_an_announcement_that_is_no_number_is_refused(announced: str):
    client = Client([b"abc"], headers={})
    client.request.scope["headers"].append((b"content-length", announced.encode()))
    assert refusal(client).status == 400


@pytest.mark.parametrize("headers", [{}, {"Content-Length": "10"}])
def test_a_gigabyte_that_was_not_announced_is_cut_off_with_memory_flat(headers: dict[str, str]):
    client, room = Client(headers=headers), UploadRoom(GIGABYTE)
    tracemalloc.start()
    try:
        assert refusal(client, room=room).status == 413
        assert tracemalloc.get_traced_memory()[1] < 3 * MEGABYTE
    finally:
        tracemalloc.stop()
    assert client.sent <= MEGABYTE + len(PIECE)
    assert room.held == 0


def test_a_body_of_tiny_pieces_costs_no_more_than_its_length():
    tracemalloc.start()
    try:
        assert len(read(Tiny())) == 2**16
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


class Tiny(Client):
    """Sends two bytes at a time."""

    async def receive(self) -> dict[str, Any]:
        self.sent += 2
        return {"type": "http.request", "body": bytes([0, 1]), "more_body": self.sent < 2**16}


class NeverReady(Client):
    """Sends a piece, and then nothing more."""

    async def receive(self) -> dict[str, Any]:
        if self.sent:
            await asyncio.sleep(600)
        self.sent += 3
        return {"type": "http.request", "body": b"abc", "more_body": True}


class Drips(Client):
    """Sends a byte whenever it is asked, and takes a moment for each."""

    async def receive(self) -> dict[str, Any]:
        await asyncio.sleep(0.005)
        return {"type": "http.request", "body": b"a", "more_body": True}


@pytest.mark.parametrize("client", [NeverReady(), Drips()])
def test_a_body_has_its_time_as_a_whole(client: Client):
    room = UploadRoom(GIGABYTE)
    refused = refusal(client, seconds=0.05, room=room)
    assert refused.status == 408
    assert room.held == 0


def test_a_full_room_refuses_for_now():
    room = UploadRoom(100)
    with room.share() as other:
        other.take(98)
        refused = refusal(Client([b"ab", b"c"]), room=room)
        assert room.held == 98
    assert refused.status == 503
    assert refused.retry_after is not None and refused.retry_after >= 1
    assert read(Client([b"ab", b"c"]), room=room) == b"abc"


class Leaves(Client):
    """Sends a piece, and is gone."""

    async def receive(self) -> dict[str, Any]:
        if self.sent:
            return {"type": "http.disconnect"}
        self.sent += 3
        return {"type": "http.request", "body": b"abc", "more_body": True}


def test_a_client_that_leaves_is_no_refusal():
    room = UploadRoom(100)
    with pytest.raises(ClientDisconnect):
        read(Leaves(), room=room)
    assert room.held == 0


def test_what_is_read_is_given_back():
    room = UploadRoom(100)
    assert read(Client([b"abc"]), room=room) == b"abc"
    assert room.held == 0


def test_what_waits_to_be_used_is_still_held():
    room = UploadRoom(100)

    async def use() -> AsyncIterator[int]:
        client = Client([b"abc", b"de"])
        async with uploaded(client.request, most=10, seconds=20, room=room) as body:
            yield len(body)
            yield room.held
        yield room.held

    async def collect() -> list[int]:
        return [held async for held in use()]

    assert asyncio.run(collect()) == [5, 5, 0]


def test_a_reader_that_is_cancelled_gives_back():
    room = UploadRoom(100)

    async def cancel() -> None:
        task = asyncio.create_task(read_body(NeverReady().request, most=10, seconds=600, room=room))
        while not room.held:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert room.held == 0
