"""A writer of an index that is killed leaves everything that it acknowledged."""

import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from child_processes import received, start
from stores import DIM, SPACE, contents, made, opened

from surefind.embeddings import Gaussians
from surefind.engines.base import Engine, Rows
from surefind.engines.embedded import ann
from surefind.engines.embedded import engine as embedded
from surefind.errors import SurefindError

POOL = 60  # ids that come and go
Model = dict[str, int]  # the step that wrote each id


class Step(NamedTuple):
    """One change, the same in every process; without rows it compacts."""

    add: list[int]
    remove: list[int]


def planned(seed: int, step: int) -> Step:
    random = np.random.default_rng((seed, step))
    ids = random.permutation(POOL)[: random.integers(1, 25)].tolist()
    chance = random.random()
    if chance < 0.7:
        return Step(ids, [])
    return Step([], ids[:8] if chance < 0.9 else [])


def rows_of(seed: int, step: int, ids: list[int]) -> Rows:
    """Rows that tell which step wrote them, in every column."""
    random = np.random.default_rng((seed, step, 1))
    mean = random.standard_normal((POOL, DIM)).astype("f4")[ids]
    return Rows(
        ids=tuple(f"row-{n}" for n in ids),
        embeddings=Gaussians(torch.from_numpy(mean), torch.full((len(ids),), 0.5 + step)),
        digests=tuple(f"{step:032x}{n:032x}" for n in ids),
        metadata=tuple({"step": step, "n": n} for n in ids),
    )


def do(engine: Engine, seed: int, step: int) -> None:
    plan = planned(seed, step)
    if plan.add:
        engine.add(rows_of(seed, step, plan.add))
    elif plan.remove:
        engine.remove([f"row-{n}" for n in plan.remove])
    else:
        engine.compact()


def done(model: Model, seed: int, step: int) -> Model:
    """The same to a dictionary."""
    plan = planned(seed, step)
    gone = {f"row-{n}" for n in plan.remove}
    kept = {name: wrote for name, wrote in model.items() if name not in gone}
    return kept | {f"row-{n}": step for n in plan.add}


def write_on(place: str, seed: int, step: int, pipe: Connection) -> None:
    """In a child, until it is killed: do a step, then send its number."""
    embedded.BLOCK, ann.GRAPH_FROM = 16, 40
    engine = opened(Path(place))
    pipe.send(step - 1)
    while True:
        do(engine, seed, step)
        pipe.send(step)
        step += 1


def holds(engine: Engine, model: Model, seed: int) -> bool:
    """Whether exactly these rows are there, each just as its step wrote it."""
    wanted = {}
    for step in set(model.values()):
        ids = [int(name[4:]) for name, wrote in model.items() if wrote == step]
        rows = rows_of(seed, step, ids)
        for n, name in enumerate(rows.ids):
            vector = SPACE.gallery_vectors(rows.embeddings)[n].tobytes()
            wanted[name] = (rows.digests[n], step, vector, 0.5 + step)
    found = {
        name: (digest, int(metadata.split('"step": ')[1][:-1]), vector, var)
        for name, (digest, metadata, _, _, vector, var) in contents(engine).items()
    }
    return found == wanted


def killed(place: Path, seed: int, *, step: int, random: np.random.Generator) -> list[int]:
    """Let a child go on from this step and kill it: after some steps, and somewhere in the next.

    Returns the steps that it acknowledged. Now and then it is killed while it opens the index.
    """
    child, pipe = start(write_on, str(place), seed, step)
    sent, began = [], time.monotonic()
    for _ in range(random.integers(0, 4)):
        assert pipe.poll(60), "the writer sends nothing"
        with suppress(EOFError):
            sent.append(pipe.recv())
    assert child.is_alive(), "the writer stopped by itself"
    pace = (time.monotonic() - began) / max(1, len(sent))
    time.sleep(2 * max(pace, 0.01) * random.random())
    child.kill()
    child.join()
    return [*sent, *received(pipe)][1:]  # the first only means that it is ready


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        ("hnsw", 100),
        pytest.param("flat", 500, marks=pytest.mark.faults),
        pytest.param("hnsw", 500, marks=pytest.mark.faults),
    ],
)
def test_kills_leave_nothing_unreadable_and_nothing_mixed(place, kind: str, kills: int):
    """Each step that was acknowledged must be there, the one after it whole or not at all."""
    made(place, kind=kind)
    random, seed = np.random.default_rng(1), 1
    model: Model = {}
    step = acknowledged = unreadable = mixed = 0
    for _ in range(kills):
        for finished in killed(place, seed, step=step, random=random):
            model, step, acknowledged = done(model, seed, finished), finished + 1, acknowledged + 1
        try:
            engine = opened(place)
            unreadable += bool([*engine.warnings, *engine.verify()])
        except SurefindError:
            unreadable += 1
            continue
        after = done(model, seed, step)
        if holds(engine, after, seed):
            model, step = after, step + 1
        elif not holds(engine, model, seed):
            mixed += 1
    assert (unreadable, mixed) == (0, 0)
    assert acknowledged > kills // 2
