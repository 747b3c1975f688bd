"""A disk that is full or refuses: the older version stays, and it is said what to do."""

import errno
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from faulty_disk import failing_disk
from stores import Contents, contents, filled, made, opened, some_rows

from surefind.engines.embedded import building, publishing
from surefind.engines.embedded.engine import EmbeddedEngine
from surefind.engines.engine import EngineError
from surefind.errors import InvalidFile, SurefindError

Write = Callable[[EmbeddedEngine], object]
WRITES: dict[str, Write] = {
    "add": lambda engine: engine.add(some_rows(6, 8)),
    "merge": lambda engine: engine.add(some_rows(9, 8, prefix="new")),
    "remove": lambda engine: engine.remove(["row-1", "other-2"]),
    "compact": lambda engine: engine.compact(),
}
FAULTS = {
    "full once": (errno.ENOSPC, False),
    "full": (errno.ENOSPC, True),
    "forbidden": (errno.EACCES, True),
    "broken": (errno.EIO, False),
}
QUICK = {("add", "forbidden"), ("add", "full once"), ("merge", "full once"), ("remove", "full")}
CASES = [
    pytest.param(*case, marks=() if case in QUICK else pytest.mark.faults, id=" and ".join(case))
    for case in product(WRITES, FAULTS)
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("full") / "index"
    filled(place, kind="hnsw")
    return place


def copies(stored: Path, tmp_path: Path):
    number = 0
    while True:
        number += 1
        yield shutil.copytree(stored, tmp_path / str(number))


def both(stored: Path, tmp_path: Path, write: Write) -> tuple[Contents, Contents]:
    """What is there before and after."""
    engine = opened(shutil.copytree(stored, tmp_path / "whole"))
    before = contents(engine)
    write(engine)
    return before, contents(engine)


@pytest.mark.parametrize(("name", "fault"), CASES)
def test_whichever_step_fails_the_index_is_whole_and_can_be_written_again(
    request, monkeypatch, stored, tmp_path, name: str, fault: str
):
    monkeypatch.setattr(building, "GRAPH_FROM", 15)
    if name == "merge":
        request.getfixturevalue("small_tiers")
    write, (code, on) = WRITES[name], FAULTS[fault]
    before, after = both(stored, tmp_path, write)
    failed = 0
    for step, place in enumerate(copies(stored, tmp_path)):
        engine = opened(place)
        with failing_disk(at=step, code=code, on=on) as steps:
            try:
                write(engine)
            except SurefindError as error:
                failed += 1
                problem, fix = error.problem, error.fix
            else:
                assert contents(opened(place)) == after
                if len(steps) <= step:
                    break  # no step was left to fail
                continue  # files that could not be removed do no harm
        found = contents(opened(place))
        assert found == contents(engine)
        assert found == (before if "it is as it was" in problem else after), steps[-1]
        assert str(place) in problem and "then do it again" in fix
        write(engine)
        assert contents(opened(place)) == after and engine.verify() == []
        assert not list(place.rglob("*.part"))
    assert failed >= 9


@pytest.mark.parametrize(("code", "on"), FAULTS.values(), ids=FAULTS)
def test_whichever_step_of_making_fails_it_can_be_made_again(tmp_path, code: int, on: bool):
    failed = 0
    for step in range(100):
        place = tmp_path / str(step)
        with failing_disk(at=step, code=code, on=on) as steps:
            try:
                made(place)
            except InvalidFile as error:
                failed += 1
                assert "cannot make an index" in error.problem and "folder" in error.fix  # noqa: PT017
            else:
                break
        finished = (place / "store.json").exists()
        assert finished == (steps[:step].count("rename") == 3)
        if not finished:
            with pytest.raises(InvalidFile, match="holds no index"):
                opened(place)
            made(place)
        assert opened(place).verify() == []
    assert failed >= 10


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_what_does_not_fit_is_not_begun(place, monkeypatch):
    engine = filled(place)
    before = contents(engine)
    monkeypatch.setattr(publishing.shutil, "disk_usage", lambda _: Usage(10**9, 10**9, 1000))
    with failing_disk(at=0) as steps, pytest.raises(EngineError, match="MB of free space"):
        engine.add(some_rows(100, 5))
    assert steps == [] and contents(opened(place)) == before


@pytest.mark.usefixtures("small_tiers")
def test_merging_waits_while_there_is_no_room_for_it(place, monkeypatch):
    engine = made(place)
    engine.add(some_rows(20, 1, prefix="a"))
    engine.add(some_rows(20, 2, prefix="b"))
    room = publishing.RESERVE + 9000  # for some rows, not for all
    monkeypatch.setattr(publishing.shutil, "disk_usage", lambda _: Usage(10**9, 0, room))
    engine.add(some_rows(13, 3, prefix="c"))
    assert engine.describe()["segments"] == 3
    with pytest.raises(EngineError, match="free some space"):
        engine.compact()
    monkeypatch.undo()
    engine.compact()
    assert engine.describe()["segments"] == 1 and engine.count() == 53


def test_an_index_that_may_only_be_read_can_be_read(place):
    wanted = contents(filled(place))
    folders = [place, place / "segments", place / "versions"]
    with failing_disk(at=0, code=errno.EROFS, on=True) as steps:
        assert contents(opened(place)) == wanted
        assert opened(place).verify() == []
    assert steps == [] and all(folder.exists() for folder in folders)
