"""Index folders with damaged files, and what comes of opening them."""

import hashlib
import json
import shutil
import sqlite3
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from children import received, start
from stores import answers, contents, files_of, filled, flip_bit, opened

from surefind.engines.embedded import ann
from surefind.engines.embedded.database import read_meta, write_meta
from surefind.engines.filters import Where
from surefind.errors import SurefindError
from surefind.storage import CorruptFile

EXTREMES = [b"\xff" * 8, bytes(8), b"\xff" * 7 + b"\x7f", bytes(4) + b"\1" + bytes(3)]
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


def mutated(content: bytes, other: bytes, random: np.random.Generator, *, head: int = 512) -> bytes:
    """One of seven kinds of damage; several aim at the beginning, where sizes are."""
    changed = bytearray(content)
    size, head = len(content), min(head, len(content))
    kind = random.integers(7)
    if kind == 0:  # a few bits anywhere
        for place in random.integers(0, size, random.integers(1, 6)):
            changed[place] ^= 1 << random.integers(8)
    elif kind == 1:  # a few bytes at the beginning
        for place in random.integers(0, head, random.integers(1, 5)):
            changed[place] = random.integers(256)
    elif kind == 2:  # an extreme number
        place = int(random.integers(0, size if random.random() < 0.5 else head))
        changed[place : place + 8] = EXTREMES[random.integers(len(EXTREMES))]
    elif kind == 3:  # cut short
        del changed[random.integers(0, size) :]
    elif kind == 4:  # longer
        changed += bytes(int(random.integers(1, 10_000)))
    elif kind == 5:  # another file, or its end
        place = int(random.integers(0, min(size, len(other)))) * int(random.integers(2))
        changed[place:] = other[place:]
    else:  # a piece taken out, or twice
        start_at, stop = sorted(random.integers(0, size, 2).tolist())
        changed[start_at:stop] = changed[start_at:stop] * int(2 * random.integers(2))
    return bytes(changed)


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
