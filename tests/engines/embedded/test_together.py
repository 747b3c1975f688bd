"""Several processes at one index: one writes at a time, readers wait for nobody."""

from threading import Timer

import pytest
from children import start
from crowding import ROWS, crowd, hold
from stores import contents, filled, made, opened, some_rows

from surefind.engines.base import EngineError
from surefind.engines.embedded import database


def test_a_second_writer_waits_and_then_says_so_while_readers_go_on(place, monkeypatch):
    engine = filled(place)
    wanted = contents(engine)
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    child, pipe = start(hold, str(place))
    assert pipe.poll(60) and pipe.recv() == "held"
    for write in (lambda: engine.add(some_rows(1, 9)), lambda: engine.remove(["row-1"])):
        with pytest.raises(EngineError, match="another process is writing"):
            write()
    assert contents(opened(place)) == wanted
    child.kill()
    child.join()
    pipe.close()
    engine.add(some_rows(1, 9, prefix="new"))  # the lock ended with its process
    assert engine.count() == len(wanted) + 1


def test_a_writer_that_waits_gets_its_turn(place):
    made(place)
    child, pipe = start(hold, str(place))
    assert pipe.poll(60) and pipe.recv() == "held"
    Timer(0.3, pipe.send, ["end"]).start()
    engine = opened(place)
    engine.add(some_rows(2, 1))
    assert engine.count() == 2
    child.join()
    pipe.close()


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.faults)])
def test_two_writers_and_eight_readers_see_whole_turns_only(place, seconds: int):
    made(place)
    turns, looks, wrong = crowd(place, writers=2, readers=8, seconds=seconds)
    assert wrong == []
    assert min(turns) >= 1 and looks >= 8
    engine = opened(place)
    assert engine.verify() == [] and engine.count() == 2 * ROWS
