"""Several processes at one index: one writes at a time, readers wait for nobody."""

import subprocess
import sys

import pytest
from children import start
from crowding import ROWS, crowd, hold
from stores import contents, filled, made, opened, some_rows

from surefind.engines.embedded import lock
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.lock import writer_lock
from surefind.engines.engine import EngineError


def test_a_second_writer_waits_and_then_says_so_while_readers_go_on(place, monkeypatch):
    engine = filled(place)
    wanted = contents(engine)
    monkeypatch.setattr(lock, "PATIENCE", 0.1)
    child, pipe = start(hold, str(place))
    assert pipe.poll(60) and pipe.recv() == "held"
    for write in (lambda: engine.add(some_rows(1, 9)), lambda: engine.remove(["row-1"])):
        with pytest.raises(EngineError, match="another process is writing"):
            write()
    with pytest.raises(EngineError, match="another process is writing"):
        made(place)
    assert contents(opened(place)) == wanted
    child.kill()
    child.join()
    pipe.close()
    engine.add(some_rows(1, 9, prefix="new"))  # the lock ended with its process
    assert engine.count() == len(wanted) + 1


def test_a_writer_that_waits_gets_its_turn(place):
    made(place)
    script = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'r+');"
        "fcntl.flock(file, fcntl.LOCK_EX); print('held', flush=True); time.sleep(0.3)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, place / "lock"], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "held\n"
        engine = opened(place)
        engine.add(some_rows(2, 1))
        assert engine.count() == 2


def test_a_lock_that_was_deleted_keeps_nobody_out(place):
    engine = made(place)
    with writer_lock(Folder(place)):
        (place / "lock").unlink()
        engine.add(some_rows(2, 1))
    assert opened(place).count() == 2


def test_two_engines_of_one_process_do_not_mix(place):
    made(place)
    engines = [opened(place) for _ in range(2)]
    with writer_lock(Folder(place)), pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "PATIENCE", 0.0)
        for engine in engines:
            with pytest.raises(EngineError, match="another process"):
                engine.add(some_rows(1, 1))


def test_two_writers_and_eight_readers_see_whole_turns_only(place):
    made(place)
    turns, looks, wrong = crowd(place, writers=2, readers=8, seconds=3)
    assert wrong == []
    assert min(turns) >= 1 and looks >= 8
    engine = opened(place)
    assert engine.verify() == [] and engine.count() == 2 * ROWS
