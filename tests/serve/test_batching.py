"""Batching: queued items are processed together, none is lost, cancelled ones cost no work."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

from surefind.serve.service import Batcher

PATIENCE = 30


class Work:
    """Doubles numbers; records its batches, and blocks while the door is closed."""

    def __init__(self) -> None:
        self.batches: list[tuple[Any, list[int]]] = []
        self.door, self.busy = Event(), Event()
        self.door.set()

    def __call__(self, kind: Any, asked: list[int]) -> list[int]:
        self.batches.append((kind, list(asked)))
        self.busy.set()
        assert self.door.wait(PATIENCE)
        if -1 in asked:
            raise ValueError("a number that cannot be doubled")
        return [2 * one for one in asked]


@contextmanager
def batcher(work: Callable[..., Any], *, workers: int = 1, most: int = 4, in_turn: bool = False) -> Iterator[Batcher]:
    made = Batcher[int, int](work, workers=workers, most=most, in_turn=in_turn)
    try:
        yield made
    finally:
        made.close()


async def while_busy(work: Work, made: Batcher, *items: int, key: str | None = None) -> list[Any]:
    """Submit 0, and the items once a thread is busy with it; return all tasks."""
    work.door.clear()
    tasks = [asyncio.create_task(made.submit(0, key))]
    while not work.busy.is_set():
        await asyncio.sleep(0.001)
    tasks += [asyncio.create_task(made.submit(item, key)) for item in items]
    await asyncio.sleep(0)  # let them submit
    return tasks


def results(tasks: list[Any]) -> list[Any]:
    return [task.result()[0] for task in tasks]


def test_queued_items_share_batches_up_to_the_maximum_in_order():
    work = Work()

    async def ask(made: Batcher) -> list[int]:
        tasks = await while_busy(work, made, *range(1, 11))
        work.door.set()
        await asyncio.wait(tasks)
        return results(tasks)

    with batcher(work) as made:
        assert asyncio.run(ask(made)) == [2 * n for n in range(11)]
    assert [asked for _, asked in work.batches] == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


def test_in_turn_a_key_has_one_batch_at_a_time_and_other_keys_do_not_wait():
    work = Work()

    async def ask(made: Batcher) -> None:
        tasks = await while_busy(work, made, 1, 2, 3, 4, 5, key="a")
        tasks.append(asyncio.create_task(made.submit(9, "b")))
        while len(work.batches) < 2:
            await asyncio.sleep(0.001)
        work.door.set()
        await asyncio.wait(tasks)
        assert results(tasks) == [0, 2, 4, 6, 8, 10, 18]

    with batcher(work, workers=2, most=32, in_turn=True) as made:
        asyncio.run(ask(made))
    assert work.batches == [("a", [0]), ("b", [9]), ("a", [1, 2, 3, 4, 5])]


def test_a_cancelled_item_costs_no_work():
    work = Work()

    async def ask(made: Batcher) -> None:
        tasks = await while_busy(work, made, 1, 2, 3)
        tasks[2].cancel()
        await asyncio.sleep(0)
        work.door.set()
        await asyncio.wait(tasks)
        assert tasks[2].cancelled() and results([tasks[1], tasks[3]]) == [2, 6]

    with batcher(work, most=1) as made:
        asyncio.run(ask(made))
    assert [asked for _, asked in work.batches] == [[0], [1], [3]]


def test_an_error_reaches_exactly_the_items_of_its_batch():
    work = Work()

    async def ask(made: Batcher) -> list[Any]:
        tasks = await while_busy(work, made, 1, -1, 3, 4, 5, 6)
        work.door.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    with batcher(work, most=3) as made:
        outcomes = asyncio.run(ask(made))
    assert [type(one) for one in outcomes[1:4]] == [ValueError] * 3
    assert [one[0] for one in (outcomes[0], *outcomes[4:])] == [0, 8, 10, 12]


def test_items_submitted_before_close_are_processed_and_none_after():
    work = Work()

    async def ask(made: Batcher) -> list[int]:
        tasks = await while_busy(work, made, *range(1, 6))
        work.door.set()
        await asyncio.to_thread(made.close)
        with pytest.raises(RuntimeError, match="stopping"):
            await made.submit(9)
        await asyncio.wait(tasks)
        return results(tasks)

    with batcher(work) as made:
        assert asyncio.run(ask(made)) == [0, 2, 4, 6, 8, 10]


def test_no_item_is_lost_with_eight_threads():
    work = Work()

    async def ask(made: Batcher) -> list[int]:
        done = await asyncio.gather(*(made.submit(n, n % 3) for n in range(8000)))
        return [result for result, *_ in done]

    with batcher(work, workers=8, most=16) as made:
        assert asyncio.run(ask(made)) == [2 * n for n in range(8000)]
        assert len(made) == 0
    assert sorted(n for _, asked in work.batches for n in asked) == list(range(8000))
    assert all(len(asked) <= 16 and {n % 3 for n in asked} == {kind} for kind, asked in work.batches)
