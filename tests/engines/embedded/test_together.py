"""Several processes at one index: one writes at a time, readers wait for nobody."""

import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest
import torch
from child_processes import received, start
from stores import DIM, SPACE, contents, filled, made, opened, some_rows

from surefind.embeddings import Gaussians
from surefind.engines.base import EngineError, Rows
from surefind.engines.embedded import database
from surefind.engines.embedded.database import transaction

ROWS = 7  # of each writer; all are replaced at once
QUERY = SPACE.queries(Gaussians(torch.ones(3, DIM), torch.ones(3))).vectors


def hold(place: str, pipe: Connection) -> None:
    """In a child: take the write lock and keep it until a message comes."""
    with transaction(Path(place), "write"):
        pipe.send("held")
        pipe.recv()


def rows_of(writer: int, turn: int) -> Rows:
    random = np.random.default_rng((writer, turn))
    mean = torch.from_numpy(random.standard_normal((ROWS, DIM)).astype("f4"))
    return Rows(
        ids=tuple(f"{writer}-{n}" for n in range(ROWS)),
        embeddings=Gaussians(mean, torch.full((ROWS,), 1.0 + turn)),
        digests=("",) * ROWS,
        metadata=tuple({"writer": writer, "turn": turn} for _ in range(ROWS)),
    )


def write_repeatedly(place: str, writer: int, seconds: float, pipe: Connection) -> None:
    """In a child: replace all rows of a writer again and again; send how often."""
    engine = opened(Path(place))
    ends, turn = time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        engine.add(rows_of(writer, turn))
        if turn % 9 == 8:
            engine.compact()
        turn += 1
    pipe.send(turn)


def read_repeatedly(place: str, reader: int, seconds: float, pipe: Connection) -> None:
    """In a child: read again and again, sometimes reopened; send how often, and problems."""
    engine = opened(Path(place))
    ends, looks, wrong = time.monotonic() + seconds, 0, list[str]()
    newest: Counter[int] = Counter()
    while time.monotonic() < ends:
        if looks % 10 == reader:
            engine = opened(Path(place))
        else:
            engine.refresh()
        wrong += [*engine.warnings, *problems_of(engine, newest)]
        looks += 1
    pipe.send((looks, wrong))


def problems_of(engine: Any, newest: Counter[int]) -> list[str]:
    """Check that turns are whole and never go back, and that searches find the nearest."""
    wrong = []
    blocks = list(engine.scan())
    if not blocks:
        return []
    keys = np.concatenate([block.keys for block in blocks])
    vectors = np.concatenate([block.vectors for block in blocks])
    rows = engine.rows(keys)
    for writer in {row["writer"] for row in rows.metadata}:
        turns = [row["turn"] for row in rows.metadata if row["writer"] == writer]
        if len(turns) != ROWS or len(set(turns)) != 1:
            wrong.append(f"writer {writer}: mixed turns {turns}")
        elif turns[0] < newest[writer]:
            wrong.append(f"writer {writer}: turn {turns[0]} after {newest[writer]}")
        newest[writer] = max(newest[writer], *turns)
        wanted = SPACE.gallery_vectors(rows_of(writer, turns[0]).embeddings)
        mine = [n for n, row in enumerate(rows.metadata) if row["writer"] == writer]
        if not np.array_equal(vectors[mine], wanted):
            wrong.append(f"writer {writer}: rows of turn {turns[0]} hold something else")
    distance = ((QUERY[:, None].astype("f8") - vectors) ** 2).sum(-1)
    found = engine.search(QUERY, 3)
    if not np.allclose(np.sort(distance, axis=1)[:, :3], found.distance, rtol=1e-4):
        wrong.append("a search did not find the nearest")
    return wrong


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
    started = [start(write_repeatedly, str(place), n, seconds) for n in range(2)]
    started += [start(read_repeatedly, str(place), n, seconds) for n in range(8)]
    sent = [received(pipe) for _, pipe in started]
    for child, _ in started:
        child.join()
    assert [child.exitcode for child, _ in started] == [0] * 10
    assert all(turns >= 1 for (turns,) in sent[:2])
    for ((looks, wrong),) in sent[2:]:
        assert looks >= 1 and wrong == []
    engine = opened(place)
    assert engine.verify() == [] and engine.count() == 2 * ROWS
