"""Two writers and eight readers of one index for a minute: no wrong answer."""

import logging

import pytest
from crowding import ROWS, crowd
from stores import made, opened


@pytest.mark.faults
def test_two_writers_and_eight_readers_for_a_minute_see_no_wrong_answer(tmp_path):
    made(tmp_path / "index")
    turns, looks, wrong = crowd(tmp_path / "index", writers=2, readers=8, seconds=60)
    logging.getLogger(__name__).info("turns of writers: %s, looks of readers: %d", turns, looks)
    assert wrong == []
    engine = opened(tmp_path / "index")
    assert engine.verify() == [] and engine.count() == 2 * ROWS
