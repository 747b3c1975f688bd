"""What waits together is answered together, nothing is lost, and nobody is worked for in vain."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

from surefind.serve.batching import Batcher, _Queued

PATIENCE = 30


class Work:
    """Doubles numbers; remembers the batches it was given, and waits at the door if told to."""

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
def batcher(
    work: Callable[..., Any], *, workers: int = 1, most: int = 4, in_turn: bool = False
) -> Iterator[Batcher]:
    pool = ThreadPoolExecutor(workers)
    made = Batcher[int, int](work, pool, workers=workers, most=most, in_turn=in_turn)
    try:
        yield made
    finally:
        made.close()


async def while_busy(work: Work, made: Batcher, asks: Callable[[], list[Any]]) -> list[Any]:
    """Tasks of `asks`, which all come while the one thread is at work on another question."""
    work.door.clear()
    first = asyncio.create_task(made.submit(0))
    while not work.busy.is_set():
        await asyncio.sleep(0.001)
    tasks = [asyncio.create_task(one) for one in asks()]
    await asyncio.sleep(0)  # let them ask
    try:
        return [first, *tasks]
    finally:
        work.door.set()


def answered(tasks: list[Any]) -> list[Any]:
    return [task.result().result for task in tasks]


def test_a_lone_question_is_answered_at_once():
    work = Work()
    with batcher(work, most=32) as made:
        assert asyncio.run(made.submit(21)).result == 42
    assert work.batches == [(None, [21])]


def test_what_waits_together_is_answered_together_up_to_most_and_in_order():
    work = Work()

    async def ask(made: Batcher) -> list[int]:
        tasks = await while_busy(work, made, lambda: [made.submit(n) for n in range(1, 11)])
        await asyncio.wait(tasks)
        return answered(tasks)

    with batcher(work) as made:
        assert asyncio.run(ask(made)) == [2 * n for n in range(11)]
    assert [asked for _, asked in work.batches] == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


def test_in_turn_a_kind_waits_for_its_turn_and_others_do_not_wait_for_it():
    work = Work()

    async def ask(made: Batcher) -> None:
        work.door.clear()
        tasks = [asyncio.create_task(made.submit(n, "a")) for n in range(1)]
        while not work.busy.is_set():
            await asyncio.sleep(0.001)
        tasks += [asyncio.create_task(made.submit(n, "a")) for n in range(1, 6)]
        tasks.append(asyncio.create_task(made.submit(9, "b")))
        while len(work.batches) < 2:
            await asyncio.sleep(0.001)
        work.door.set()
        await asyncio.wait(tasks)
        assert answered(tasks) == [0, 2, 4, 6, 8, 10, 18]

    with batcher(work, workers=2, most=32, in_turn=True) as made:
        asyncio.run(ask(made))
    assert work.batches == [("a", [0]), ("b", [9]), ("a", [1, 2, 3, 4, 5])]


def test_a_question_that_was_given_up_costs_no_work():
    work = Work()

    async def ask(made: Batcher) -> None:
        work.door.clear()
        tasks = [asyncio.create_task(made.submit(n)) for n in range(4)]
        while not work.busy.is_set():
            await asyncio.sleep(0.001)
        tasks[2].cancel()
        await asyncio.sleep(0)
        work.door.set()
        await asyncio.wait(tasks)
        assert tasks[2].cancelled() and answered([tasks[1], tasks[3]]) == [2, 6]

    with batcher(work, most=1) as made:
        asyncio.run(ask(made))
    assert [asked for _, asked in work.batches] == [[0], [1], [3]]


def test_a_question_that_is_given_up_while_it_is_taken_does_not_end_the_thread():
    work = Work()

    class GivenUpMeanwhile(asyncio.Future):  # type: ignore[type-arg]
        looks = 0

        def cancelled(self) -> bool:
            """Not yet when it is first looked at, but then."""
            self.looks += 1
            return self.looks > 1

    async def ask(made: Batcher) -> int:
        gone = GivenUpMeanwhile(loop=asyncio.get_running_loop())
        with made._changed:
            made._queue.append(_Queued(7, None, 0.0, gone))
            made._changed.notify()
        while made._queue:
            await asyncio.sleep(0.001)
        return (await asyncio.wait_for(made.submit(4), PATIENCE)).result

    with batcher(work) as made:
        assert asyncio.run(ask(made)) == 8


def test_a_failure_reaches_exactly_those_of_its_batch():
    work = Work()

    async def ask(made: Batcher) -> list[Any]:
        tasks = await while_busy(work, made, lambda: [made.submit(n) for n in (1, -1, 3, 4, 5, 6)])
        return await asyncio.gather(*tasks, return_exceptions=True)

    with batcher(work, most=3) as made:
        told = asyncio.run(ask(made))
    assert [type(one) for one in told[1:4]] == [ValueError] * 3
    assert [one.result for one in (told[0], *told[4:])] == [0, 8, 10, 12]


def test_what_was_asked_before_the_end_is_answered_and_nothing_after():
    work = Work()

    async def ask(made: Batcher) -> list[int]:
        tasks = await while_busy(work, made, lambda: [made.submit(n) for n in range(1, 6)])
        await asyncio.to_thread(made.close)
        with pytest.raises(RuntimeError, match="stopping"):
            await made.submit(9)
        await asyncio.wait(tasks)
        return answered(tasks)

    with batcher(work) as made:
        assert asyncio.run(ask(made)) == [0, 2, 4, 6, 8, 10]


def test_nothing_is_lost_with_eight_threads_and_eight_thousand_questions():
    work = Work()

    async def ask(made: Batcher) -> list[int]:
        done = await asyncio.gather(*(made.submit(n, n % 3) for n in range(8000)))
        return [one.result for one in done]

    with batcher(work, workers=8, most=16) as made:
        assert asyncio.run(ask(made)) == [2 * n for n in range(8000)]
        assert len(made) == 0
    assert sorted(n for _, asked in work.batches for n in asked) == list(range(8000))
    assert all(
        len(asked) <= 16 and {n % 3 for n in asked} == {kind} for kind, asked in work.batches
    )
