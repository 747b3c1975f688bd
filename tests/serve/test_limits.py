"""Places for questions, and bodies that are counted as they come and leave nothing behind."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from surefind.serve import limits
from surefind.serve.errors import Refused
from surefind.serve.limits import LONGEST_PAUSE, Admission, UploadBudget, upload

MEGABYTE, GIGABYTE = 2**20, 2**30
PIECE = bytes(2**16)

# places


def filled(places: int, stack: ExitStack) -> Admission:
    made = Admission(places)
    for _ in range(places):
        stack.enter_context(made.place())
    return made


def test_there_are_so_many_places_and_no_more():
    with ExitStack() as stack:
        made = filled(3, stack)
        for ask in (made.check, made.place().__enter__):
            with pytest.raises(Refused, match="all 3 places are taken") as refused:
                ask()
            assert refused.value.status == 503 and refused.value.retry_after >= 1
        assert made.taken == 3
    made.check()


def test_a_place_is_given_back_when_the_work_fails():
    made = Admission(1)
    with pytest.raises(ValueError, match="no"), made.place():
        raise ValueError("no")
    assert made.taken == 0


def test_the_more_wait_the_later_one_should_come_back():
    pauses = []
    for places in (1, 50, 200, 5000):
        with ExitStack() as stack:
            pauses.append(filled(places, stack).busy("full").retry_after)
    assert pauses == sorted(pauses) and pauses[0] == 1 and pauses[1] < pauses[2]
    assert pauses[-1] == LONGEST_PAUSE


@pytest.mark.parametrize(("seconds", "pause"), [(0.01, 1), (0.5, 20)])
def test_the_slower_the_answers_the_later_one_should_come_back(monkeypatch, seconds, pause):
    clock = iter(range(10_000))
    monkeypatch.setattr(limits, "perf_counter", lambda: seconds * next(clock))
    made = Admission(40)
    with ExitStack() as stack:
        stack.enter_context(made.place())  # never idle
        for _ in range(100):
            with made.place():
                pass
        for _ in range(39):
            stack.enter_context(made.place())
        assert made.busy("full").retry_after == pause


def test_idle_time_does_not_count_as_work(monkeypatch):
    times = iter([0.0, 3600.0, 3600.1, 3600.2])
    monkeypatch.setattr(limits, "perf_counter", lambda: next(times))
    made = Admission(1)
    for _ in range(2):
        with made.place():
            pass
    with made.place():
        assert made.busy("full").retry_after == 1


# bodies


class Client:
    """Sends one piece after another, and counts what was asked of it."""

    def __init__(self, pieces: list[bytes] | None = None, *, announced: str | None = None):
        self.pieces, self.sent = pieces, 0
        raw = [] if announced is None else [(b"content-length", announced.encode())]
        self.request = Request({"type": "http", "headers": raw}, self.receive)

    async def receive(self) -> dict[str, Any]:
        if self.pieces is None:  # without end
            self.sent += len(PIECE)
            return {"type": "http.request", "body": PIECE, "more_body": self.sent < GIGABYTE}
        piece = self.pieces.pop(0)
        self.sent += len(piece)
        return {"type": "http.request", "body": piece, "more_body": bool(self.pieces)}


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


class Leaves(Client):
    """Sends a piece, and is gone."""

    async def receive(self) -> dict[str, Any]:
        if self.sent:
            return {"type": "http.disconnect"}
        self.sent += 3
        return {"type": "http.request", "body": b"abc", "more_body": True}


def read(
    client: Client,
    *,
    most: int = MEGABYTE,
    seconds: float = 20,
    budget: UploadBudget | None = None,
) -> bytes:
    budget = budget or UploadBudget(GIGABYTE)

    async def body() -> bytes:
        async with upload(client.request, most=most, seconds=seconds, budget=budget) as content:
            assert budget.held >= len(content)
            return content

    return asyncio.run(body())


def refusal(client: Client, **given: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        read(client, **given)
    return caught.value


@pytest.mark.parametrize("pieces", [[b""], [b"a", b"", b"b", b"c"], [b"a"] * 100])
def test_a_body_is_its_pieces(pieces: list[bytes]):
    assert read(Client(list(pieces))) == b"".join(pieces)


def test_a_body_of_just_the_most_is_taken_and_one_byte_more_is_not():
    assert read(Client([b"abc", b"de"]), most=5) == b"abcde"
    assert refusal(Client([b"abc", b"def"]), most=5).status == 413


@pytest.mark.parametrize("announced", ["1048577", "9" * 10_000, "00001048577"])
def test_a_body_announced_too_long_is_refused_unread(announced: str):
    client = Client(announced=announced)
    assert refusal(client).status == 413 and client.sent == 0


@pytest.mark.parametrize("announced", ["3", "0", "0" * 10_000])
def test_a_short_announcement_is_believed_no_further_than_the_bytes(announced: str):
    assert read(Client([b"abc"], announced=announced)) == b"abc"


@pytest.mark.parametrize("announced", ["abc", "-1", "1e3", "", " 3", "٣", "²"])
def test_an_announcement_that_is_no_number_is_refused(announced: str):
    assert refusal(Client([b"abc"], announced=announced)).status == 400


def test_a_body_of_tiny_pieces_costs_no_more_than_its_length():
    tracemalloc.start()
    try:
        assert len(read(Tiny())) == 2**16
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("client", [NeverReady(), Drips()])
def test_a_body_has_its_time_as_a_whole(client: Client):
    budget = UploadBudget(GIGABYTE)
    assert refusal(client, seconds=0.05, budget=budget).status == 408 and budget.held == 0


def test_where_all_uploads_hold_too_much_a_further_one_is_refused_for_now():
    budget = UploadBudget(100)
    budget.take(98)
    refused = refusal(Client([b"ab", b"c"]), budget=budget)
    assert budget.held == 98
    assert refused.status == 503 and refused.retry_after >= 1
    budget.held = 0
    assert read(Client([b"ab", b"c"]), budget=budget) == b"abc"


def test_a_client_that_leaves_is_no_refusal():
    budget = UploadBudget(100)
    with pytest.raises(ClientDisconnect):
        read(Leaves(), budget=budget)
    assert budget.held == 0


def test_what_waits_to_be_used_is_still_held():
    budget = UploadBudget(100)

    async def use() -> AsyncIterator[int]:
        client = Client([b"abc", b"de"])
        async with upload(client.request, most=10, seconds=20, budget=budget) as body:
            yield len(body)
            yield budget.held
        yield budget.held

    async def collect() -> list[int]:
        return [held async for held in use()]

    assert asyncio.run(collect()) == [5, 5, 0]


def test_a_reader_that_is_cancelled_gives_back():
    budget = UploadBudget(100)

    async def wait() -> None:
        async with upload(NeverReady().request, most=10, seconds=600, budget=budget):
            pass

    async def cancel() -> None:
        task = asyncio.create_task(wait())
        while not budget.held:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert budget.held == 0
