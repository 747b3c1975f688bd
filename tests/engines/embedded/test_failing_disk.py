"""A disk that is full or refuses: the version before stays, and the error states the remedy.

SQLite's writes do not pass through Python: limits of the system make them fail, in a child.
"""

import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy.ma  # noqa: F401 - loaded late, from where nobody may perhaps not read
import pytest
from child_processes import received, start
from stores import contents, filled, opened, some_rows

from surefind.engines.base import EngineError
from surefind.engines.embedded import ann, vectors
from surefind.engines.embedded.engine import EmbeddedEngine
from surefind.errors import SurefindError

WRITES: dict[str, Callable[[EmbeddedEngine], Any]] = {
    "add": lambda engine: engine.add(some_rows(40, 8)),
    "remove": lambda engine: engine.remove(["row-1", "other-2"]),
    "compact": lambda engine: engine.compact(),
}


def write_with_limit(place: str, name: str, limit: int, pipe: Connection) -> None:
    """In a child: write while no file may become longer than `limit`."""
    ann.GRAPH_FROM = 15
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    engine = opened(Path(place))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        WRITES[name](engine)
        message = "done"
    except SurefindError as error:
        message = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    pipe.send((message, contents(engine)))


@pytest.mark.parametrize("name", WRITES)
def test_wherever_a_write_fails_the_index_is_whole_and_can_be_written_again(tmp_path, monkeypatch, name: str):
    monkeypatch.setattr(ann, "GRAPH_FROM", 15)
    before = contents(filled(tmp_path / "stored", kind="hnsw"))
    whole = opened(shutil.copytree(tmp_path / "stored", tmp_path / "whole"))
    WRITES[name](whole)
    after, succeeded = contents(whole), set()
    largest = max(path.stat().st_size for path in (tmp_path / "whole").iterdir())
    for limit in (*range(0, largest, largest // 5), largest + 8192):
        place = shutil.copytree(tmp_path / "stored", tmp_path / str(limit))
        child, pipe = start(write_with_limit, str(place), name, limit)
        ((message, seen),) = received(pipe)
        child.join()
        succeeded.add(message == "done")
        found = contents(opened(place))
        assert found == seen == (after if message == "done" else before)
        if message != "done":
            assert str(place) in message
            assert "it is as it was" in message and "then do it again" in message
            engine = opened(place)
            WRITES[name](engine)
            assert contents(engine) == after
        assert opened(place).verify() == []
    assert succeeded == {True, False}


def test_what_does_not_fit_is_not_begun(place, monkeypatch):
    engine = filled(place)
    before = contents(engine)
    monkeypatch.setattr(vectors.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    for write in (lambda: engine.add(some_rows(100, 5)), engine.compact):
        with pytest.raises(EngineError, match="MB are needed; it is as it was"):
            write()
    assert contents(opened(place)) == before


@pytest.fixture
def read_only() -> Iterator[Path]:
    """An index in a folder that nobody but root may write to."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    filled(root / "index")
    (root / "index").chmod(0o555)
    for path in (root / "index").iterdir():
        path.chmod(0o444)
    yield root / "index"
    (root / "index").chmod(0o755)
    shutil.rmtree(root)


def use_read_only(place: str, pipe: Connection) -> None:
    contents(opened(Path(place)))  # imports what nobody may perhaps not read
    if os.getuid() == 0:
        os.setuid(65534)
    engine = opened(Path(place))
    messages = []
    for write in WRITES.values():
        try:
            write(engine)
        except EngineError as error:
            messages.append(str(error))
    pipe.send((contents(engine), engine.verify(), messages))


def test_an_index_that_may_only_be_read_can_be_read(read_only):
    child, pipe = start(use_read_only, str(read_only))
    ((found, problems, messages),) = received(pipe)
    child.join()
    assert found == contents(opened(read_only)) and problems == []
    assert len(messages) == 3 and all("make the folder writable" in text for text in messages)
