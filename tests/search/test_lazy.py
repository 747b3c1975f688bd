"""Made once, however many ask."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from surefind.search.lazy import Lazy


def test_many_threads_get_the_one_that_was_made():
    made = []

    def make() -> object:
        time.sleep(0.02)  # so that all of them come meanwhile
        made.append(object())
        return made[-1]

    lazy = Lazy(make)
    with ThreadPoolExecutor(16) as pool:
        got = list(pool.map(lambda _: lazy.get(), range(64)))
    assert len(made) == 1 and set(got) == set(made)


def test_a_failure_is_not_kept():
    answers = iter([ValueError("not yet"), "done"])

    def make() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    lazy = Lazy(make)
    with pytest.raises(ValueError, match="not yet"):
        lazy.get()
    assert lazy.get() == lazy.get() == "done"
