"""Dynamic batching: worker threads process together what is queued at the same time."""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class BatchResult(NamedTuple, Generic[Result]):
    """The result of one item, and its timings."""

    result: Result
    waited: float  # seconds in the queue
    worked: float  # seconds of its batch


class _Queued(NamedTuple):
    item: Any
    key: Hashable
    since: float
    future: "asyncio.Future[BatchResult[Any]]"


class Batcher(Generic[Item, Result]):
    """Queue of items that worker threads process in batches.

    No item waits for a batch to fill: a free thread takes its share of the queue, so a single
    item is processed at once, and batches grow with the load. Only items with equal keys share a
    batch; `work` gets the key and the items. With `in_turn`, each key has at most one batch at a
    time, for work where a batch costs little more than one item.
    """

    def __init__(
        self,
        work: Callable[[Any, list[Item]], Sequence[Result]],
        pool: ThreadPoolExecutor,
        *,
        workers: int,
        most: int,
        in_turn: bool = False,
        observe: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._work, self._pool, self._observe = work, pool, observe
        self._workers, self._most, self._in_turn = workers, most, in_turn
        self._busy: set[Hashable] = set()  # keys in work, with `in_turn`
        self._queue: deque[_Queued] = deque()
        self._changed = Condition()
        self._closed = False
        for _ in range(workers):
            pool.submit(self._run)

    def __len__(self) -> int:
        """Number of queued items."""
        return len(self._queue)

    async def submit(self, item: Item, key: Hashable = None) -> BatchResult[Result]:
        """Process an item; if cancelled before a thread takes it, no work is done."""
        future: asyncio.Future[BatchResult[Result]] = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._closed:
                raise RuntimeError("the service is stopping")
            self._queue.append(_Queued(item, key, perf_counter(), future))
            self._changed.notify()
        return await future

    def close(self) -> None:
        """Finish the queue and stop the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._pool.shutdown()

    def _run(self) -> None:
        while batch := self._take():
            begun, key = perf_counter(), batch[0].key
            try:
                results: Sequence[Any] = self._work(key, [one.item for one in batch])
            except Exception as error:  # noqa: BLE001 - raised to the callers
                results = [error] * len(batch)
            worked = perf_counter() - begun
            if self._in_turn:
                with self._changed:
                    self._busy.discard(key)
                    self._changed.notify()
            self._observe(len(batch))
            done = [
                (one.future, result, begun - one.since)
                for one, result in zip(batch, results, strict=True)
            ]
            loop = batch[0].future.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, done, worked)

    def _take(self) -> list[_Queued]:
        """Wait for a batch; empty once closed and done."""
        with self._changed:
            while True:
                if taken := self._share():
                    return taken
                if self._closed and not self._queue:
                    return []
                self._changed.wait()

    def _share(self) -> list[_Queued]:
        among = 1 if self._in_turn else self._workers
        share = min(self._most, math.ceil(len(self._queue) / among))
        taken, left = list[_Queued](), deque[_Queued]()
        while self._queue and len(taken) < share:
            one = self._queue.popleft()
            if one.future.cancelled():
                continue
            if one.key == taken[0].key if taken else one.key not in self._busy:
                taken.append(one)
            else:
                left.append(one)
        self._queue.extendleft(reversed(left))
        if taken and self._in_turn:
            self._busy.add(taken[0].key)
        return taken


def _resolve(done: list[tuple["asyncio.Future[Any]", Any, float]], worked: float) -> None:
    for future, result, waited in done:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(BatchResult(result, waited, worked))
