"""Damaged index folders: an error, a warning or the right answer, nothing else."""

import hashlib
import json
import shutil
import sqlite3
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_processes import received, start
from mutations import mutated
from stores import answers, contents, files_of, filled, flip_bit, opened

from surefind.engines.embedded import ann
from surefind.engines.embedded.database import read_meta, write_meta
from surefind.engines.filters import Where
from surefind.errors import SurefindError
from surefind.storage import CorruptFile

WHERE = Where.parse(["label=a", "year>2001"])


def prepared(root: Path) -> list[Path]:
    """Indexes with files of every sort."""
    ann.GRAPH_FROM = 15
    places = [root / kind for kind in ("hnsw", "ivf")]
    for place in places:
        filled(place, kind=place.name)
        assert {path.suffix for path in files_of(place)} == {".db", ".vectors", f".{place.name}"}
    return places


def seen(place: Path) -> tuple[Any, ...]:
    """Contents and answers of an index."""
    engine = opened(place)
    return contents(engine), answers(engine), engine.count(WHERE)


def resealed(place: Path, path: Path) -> None:
    """Make the checksum of a damaged graph right again, as somebody who means harm would."""
    db = sqlite3.connect(place / "index.db")
    meta, heads = read_meta(place, db)
    name, covered, _ = json.loads(meta["graph"])
    meta["graph"] = json.dumps([name, covered, hashlib.sha256(path.read_bytes()).hexdigest()])
    write_meta(db, meta, heads)
    db.commit()
    db.close()


def outcome(place: Path, right: tuple[Any, ...] | None) -> str:
    """What comes of opening, reading and verifying; anything but these words is a fault."""
    try:
        found = seen(place)
        engine = opened(place)
        noticed = [*engine.warnings, *engine.verify()]
    except CorruptFile:
        return "damaged"
    except SurefindError as error:
        return "refused" if error.fix else f"no fix: {error}"
    if noticed or right is None:
        return "noticed"
    return "right answer" if found == right else "wrong answer"


def try_some(root: str, seeds: range, flips: bool, pipe: Connection) -> None:
    """In a child: damage, open, send the outcome."""
    places = prepared(Path(root))
    right = [seen(place) for place in places]
    for seed in seeds:
        random = np.random.default_rng(seed)
        which = int(random.integers(len(places)))
        pipe.send(f"seed {seed}")
        place = shutil.copytree(places[which], Path(root) / "damaged")
        paths = files_of(place)
        path, other = (paths[n] for n in random.integers(0, len(paths), 2))
        hostile = False
        if flips:
            path = paths[seed % len(paths)]
            flip_bit(path, seed=seed)
        else:
            path.write_bytes(mutated(path.read_bytes(), other.read_bytes(), random))
            hostile = path.suffix in (".hnsw", ".ivf") and random.random() < 0.5
        if hostile:
            resealed(place, path)
        pipe.send((path.suffix, outcome(place, None if hostile else right[which])))
        shutil.rmtree(place)
    pipe.send("end")


def outcomes(root: Path, seeds: range, *, flips: bool = False) -> Counter[tuple[str, str]]:
    """How often each came about for each sort of file; in a child, so that a crash is seen.

    With `flips` one bit of each file in turn is flipped, else files are damaged in many ways.
    """
    child, pipe = start(try_some, str(root), seeds, flips)
    sent = received(pipe)
    child.join()
    assert child.exitcode == 0, f"exit code {child.exitcode} after {sent[-1]}"
    return Counter(sent[1:-1:2])


LONG = pytest.mark.faults


@pytest.mark.parametrize(
    ("numbers", "flips"),
    [
        (range(160), False),
        (range(160), True),
        pytest.param(range(1_000, 11_000), False, marks=LONG),
        pytest.param(range(800), True, marks=LONG),
    ],
)
def test_a_damaged_folder_gives_an_error_or_the_right_answer(tmp_path, numbers, flips: bool):
    found = outcomes(tmp_path, numbers, flips=flips)
    assert found.total() == len(numbers)
    assert {what for _, what in found} <= {"damaged", "refused", "noticed", "right answer"}
    assert any(what == "damaged" for _, what in found)
