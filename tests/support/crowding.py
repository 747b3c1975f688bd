"""Several writers and readers of one index at the same time, each in its own process."""

import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from children import received, start
from stores import DIM, SPACE, opened

from surefind.embeddings import Gaussians
from surefind.engines.base import Rows
from surefind.engines.embedded.database import transaction

ROWS = 7  # of each writer; all are replaced at once
QUERY = SPACE.query_vectors(Gaussians(torch.ones(3, DIM), torch.ones(3)))


def hold(place: str, pipe: Connection) -> None:
    """A writer that takes the lock and keeps it until it is told to end."""
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


def write(place: str, writer: int, seconds: float, pipe: Connection) -> None:
    """Replaces all of its rows again and again; says how often."""
    engine = opened(Path(place))
    ends, turn = time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        engine.add(rows_of(writer, turn))
        if turn % 9 == 8:
            engine.compact()
        turn += 1
    pipe.send(turn)


def read(place: str, reader: int, seconds: float, pipe: Connection) -> None:
    """Looks again and again, now and then with a new engine; says how often, and what was wrong."""
    engine = opened(Path(place))
    ends, looks, wrong = time.monotonic() + seconds, 0, list[str]()
    newest: Counter[int] = Counter()
    while time.monotonic() < ends:
        if looks % 10 == reader:
            engine = opened(Path(place))
        else:
            engine.refresh()
        wrong += [*engine.warnings, *_wrong(engine, newest)]
        looks += 1
    pipe.send((looks, wrong))


def _wrong(engine: Any, newest: Counter[int]) -> list[str]:
    """What one look finds: turns are whole and never go back, answers are those of all rows."""
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


def crowd(
    place: Path, *, writers: int, readers: int, seconds: float
) -> tuple[list[int], int, list[str]]:
    """How often each writer wrote, how often readers looked in all, and all that was wrong."""
    started = [start(write, str(place), n, seconds) for n in range(writers)]
    started += [start(read, str(place), n, seconds) for n in range(readers)]
    said = [received(pipe) for _, pipe in started]
    for child, _ in started:
        child.join()
    assert [child.exitcode for child, _ in started] == [0] * len(started)
    looks = [one[0] for one in said[writers:]]
    wrong = [problem for _, problems in looks for problem in problems]
    return [one[0] for one in said[:writers]], sum(count for count, _ in looks), wrong
