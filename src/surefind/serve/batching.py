"""Threads that answer together what waits at the same time."""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Done(NamedTuple, Generic[Answer]):
    """An answer, and where its time went."""

    answer: Answer
    waited: float  # seconds in the queue
    worked: float  # seconds of the batch it was in


class _Waiting(NamedTuple):
    asked: Any
    kind: Hashable
    since: float
    future: "asyncio.Future[Done[Any]]"


class Batcher(Generic[Asked, Answer]):
    """Nobody waits for a batch to fill: a free thread takes its share of what has come meanwhile.

    So a lone question is answered at once, and the busier it is, the larger the batches. Only
    questions of one kind are answered together. `work` is given a kind and its questions. With
    `in_turn`, no two threads work on the same kind: where a batch costs little more than a
    question, those that come meanwhile had better be one batch.
    """

    def __init__(
        self,
        work: Callable[[Any, list[Asked]], Sequence[Answer]],
        pool: ThreadPoolExecutor,
        *,
        workers: int,
        most: int,
        in_turn: bool = False,
        observe: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._work, self._pool, self._observe = work, pool, observe
        self._workers, self._most, self._in_turn = workers, most, in_turn
        self._busy: set[Hashable] = set()  # kinds that have their turn
        self._waiting: deque[_Waiting] = deque()
        self._changed = Condition()
        self._closed = False
        for _ in range(workers):
            pool.submit(self._serve)

    def __len__(self) -> int:
        """Questions that no thread has taken yet."""
        return len(self._waiting)

    async def ask(self, asked: Asked, kind: Hashable = None) -> Done[Answer]:
        """The answer; if the caller gives up before a thread has taken it, no work is done."""
        future: asyncio.Future[Done[Answer]] = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._closed:
                raise RuntimeError("the service is ending")
            self._waiting.append(_Waiting(asked, kind, perf_counter(), future))
            self._changed.notify()
        return await future

    def close(self) -> None:
        """What has been asked is still answered."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._pool.shutdown()

    def _serve(self) -> None:
        while some := self._take():
            begun = perf_counter()
            try:
                answers: Sequence[Any] = self._work(some[0].kind, [one.asked for one in some])
            except Exception as error:  # noqa: BLE001 - whoever asked is told
                answers = [error] * len(some)
            worked = perf_counter() - begun
            self._end_turn(some[0].kind)
            self._observe(len(some))
            told = [
                (one.future, answer, begun - one.since)
                for one, answer in zip(some, answers, strict=True)
            ]
            loop = some[0].future.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_tell, told, worked)

    def _take(self) -> list[_Waiting]:
        """A share of what waits, all of one kind; nothing once it is closed and empty."""
        with self._changed:
            while True:
                if taken := self._share():
                    return taken
                if self._closed and not self._waiting:
                    return []
                self._changed.wait()

    def _share(self) -> list[_Waiting]:
        among = 1 if self._in_turn else self._workers
        share = min(self._most, math.ceil(len(self._waiting) / among))
        taken, left = list[_Waiting](), deque[_Waiting]()
        while self._waiting and len(taken) < share:
            one = self._waiting.popleft()
            if one.future.cancelled():
                continue
            if one.kind == taken[0].kind if taken else one.kind not in self._busy:
                taken.append(one)
            else:
                left.append(one)
        self._waiting.extendleft(reversed(left))
        if taken and self._in_turn:
            self._busy.add(taken[0].kind)
        return taken

    def _end_turn(self, kind: Hashable) -> None:
        if self._in_turn:
            with self._changed:
                self._busy.discard(kind)
                self._changed.notify()


def _tell(told: list[tuple["asyncio.Future[Done[Any]]", Any, float]], worked: float) -> None:
    for future, answer, waited in told:
        if future.done():
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(Done(answer, waited, worked))
