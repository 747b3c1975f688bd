"""Places for questions: so many, given back whatever happens, and word of when to come back."""

import asyncio
from contextlib import ExitStack

import pytest

from surefind.serve import admission
from surefind.serve.admission import LONGEST_PAUSE, Admission
from surefind.serve.guards.refused import Refused


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


def test_a_place_is_given_back_when_the_work_is_given_up():
    made = Admission(1)

    async def work() -> None:
        with made.place():
            await asyncio.sleep(60)

    async def give_up() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        assert made.taken == 1
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(give_up())
    assert made.taken == 0


def test_the_more_wait_the_later_one_should_come_back(monkeypatch):
    pauses = []
    for places in (1, 50, 200, 5000):
        with ExitStack() as stack:
            pauses.append(filled(places, stack).busy().retry_after)
    assert pauses == sorted(pauses) and pauses[0] == 1 and pauses[1] < pauses[2]
    assert pauses[-1] == LONGEST_PAUSE
    assert all(isinstance(pause, int) for pause in pauses)


def test_the_slower_the_answers_the_later_one_should_come_back(monkeypatch):
    def pause_with(seconds: float) -> int | None:
        clock = iter(range(10_000))
        monkeypatch.setattr(admission, "perf_counter", lambda: seconds * next(clock))
        made = Admission(40)
        with ExitStack() as stack:
            stack.enter_context(made.place())  # never idle
            for _ in range(100):
                with made.place():
                    pass
            for _ in range(39):
                stack.enter_context(made.place())
            return made.busy().retry_after

    assert pause_with(0.01) == 1
    assert pause_with(0.5) == 20


def test_idle_time_does_not_count_as_work(monkeypatch):
    times = iter([0.0, 3600.0, 3600.1, 3600.2])
    monkeypatch.setattr(admission, "perf_counter", lambda: next(times))
    made = Admission(1)
    for _ in range(2):
        with made.place():
            pass
    with made.place():
        assert made.busy().retry_after == 1
