"""Limits on concurrent requests and on uploads."""

import asyncio
import tracemalloc
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from surefind.serve.errors import Refused
from surefind.serve.state import Admission, UploadBudget

MEGABYTE = 2**20


def test_requests_beyond_the_limit_are_refused():
    made = Admission(3)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(made.slot())
        for request in (made.check, made.slot().__enter__):
            with pytest.raises(Refused, match="all 3 request slots are in use") as refused:
                request()
            assert refused.value.status == 503
        assert made.in_flight == 3
    made.check()
    with pytest.raises(ValueError, match="no"), made.slot():
        raise ValueError("no")
    assert made.in_flight == 0


# uploads


def sending(*pieces: bytes | None, announced: str | None = None, pause: float = 0) -> Request:
    """A request whose client sends these pieces; None: it leaves."""
    left = list(pieces)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(pause)
        piece = left.pop(0) if left else None
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    raw = [] if announced is None else [(b"content-length", announced.encode())]
    return Request({"type": "http", "headers": raw}, receive)


def read(request: Request, *, budget: UploadBudget | None = None, most: int = MEGABYTE) -> bytes:
    budget = budget or UploadBudget(2 * MEGABYTE, 20)

    async def body() -> bytes:
        async with budget.read(request, most=most) as content:
            assert budget.held == len(content)  # counts until it is used
        assert budget.held == 0
        return content

    return asyncio.run(body())


def refusal(request: Request, **given: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        read(request, **given)
    return caught.value


@pytest.mark.parametrize("pieces", [[b""], [b"a", b"", b"b", b"c"]])
def test_a_body_is_its_pieces_whatever_length_was_announced(pieces: list[bytes]):
    assert read(sending(*pieces)) == b"".join(pieces)
    assert read(sending(*pieces, announced="1")) == b"".join(pieces)


def test_a_body_of_the_maximum_size_is_accepted_and_one_byte_more_is_not():
    assert read(sending(b"abc", b"de"), most=5) == b"abcde"
    assert refusal(sending(b"abc", b"def"), most=5).status == 413
    assert refusal(sending(announced="6"), most=5).status == 413  # unread: it would leave


def test_a_body_of_tiny_pieces_needs_little_more_memory_than_its_length():
    request = sending(*[b"ab"] * 2**15)
    tracemalloc.start()
    try:
        assert len(read(request)) == 2**16
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("pieces", "pause"), [(2, 600.0), (1000, 0.005)])
def test_the_time_limit_is_for_the_whole_body(pieces: int, pause: float):
    budget = UploadBudget(MEGABYTE, 0.05)
    assert refusal(sending(*[b"a"] * pieces, pause=pause), budget=budget).status == 408
    assert budget.held == 0


def test_a_timeout_of_the_work_is_not_one_of_the_body():
    async def work() -> None:
        async with UploadBudget(MEGABYTE, 20).read(sending(b"abc"), most=9):
            raise TimeoutError

    with pytest.raises(TimeoutError):
        asyncio.run(work())


def test_an_upload_beyond_the_total_budget_is_refused():
    budget = UploadBudget(100, 20)
    budget.held = 98
    refused = refusal(sending(b"ab", b"c"), budget=budget)
    assert budget.held == 98
    assert refused.status == 503
    budget.held = 0
    assert read(sending(b"ab", b"c"), budget=budget) == b"abc"


def test_a_disconnected_client_is_not_a_refusal():
    budget = UploadBudget(100, 20)
    with pytest.raises(ClientDisconnect):
        read(sending(b"abc", None), budget=budget)
    assert budget.held == 0
