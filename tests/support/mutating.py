"""Index folders with damaged files, and what comes of opening them."""

import json
import secrets
import shutil
from collections import Counter
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from children import received, start
from stores import answers, files_of, filled, opened

from surefind.engines.embedded import building
from surefind.engines.embedded.damage import Damaged
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.manifest import Manifest, dump, parse_record
from surefind.engines.embedded.publishing import publish
from surefind.engines.embedded.sealed import unseal
from surefind.engines.embedded.writing import write_file
from surefind.engines.where import Where
from surefind.errors import SurefindError

EXTREMES = [b"\xff" * 8, bytes(8), b"\xff" * 7 + b"\x7f", bytes(4) + b"\1" + bytes(3)]
Right = list[list[list[str]]]


def prepared(root: Path) -> tuple[list[Path], list[Right]]:
    """Indexes with files of every sort, and the right answers of the versions of each."""
    places, right = [], []
    building.GRAPH_FROM = 15
    names = count()
    secrets.token_hex = lambda size: f"{next(names):0{2 * size}x}"  # the same for a seed each time
    for kind in ("hnsw", "ivf"):
        place = root / kind
        filled(place, kind=kind)
        older = shutil.copytree(place, root / f"{kind} without its newest version")
        newest = json.loads((older / "CURRENT").read_text())["version"]
        (older / "versions" / f"{newest:06}.json").unlink()
        places.append(place)
        right.append([answers(opened(place)), answers(opened(older))])
    return places, right


def mutated(content: bytes, other: bytes, random: np.random.Generator) -> bytes:
    """One of seven kinds of damage; several aim at the beginning, where sizes are."""
    changed = bytearray(content)
    size, head = len(content), min(512, len(content))
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
    """Checksums made right again, as by somebody who means harm."""
    folder = Folder(place)
    newest = json.loads(folder.current.read_text())["version"]
    content = folder.manifest(newest).read_bytes()
    facts = dump(parse_record(path, Manifest, unseal(path, content)))
    for piece in facts["pieces"]:
        for name in ("segment", "dead", "graph"):
            if piece[name] and piece[name]["name"] == path.name:
                piece[name]["sha256"] = write_file(path, path.read_bytes())
                piece[name]["bytes"] = path.stat().st_size
    publish(folder, parse_record(path, Manifest, facts))


def outcome(place: Path, right: Right | None) -> str:
    """What comes of opening and searching: anything but these words is a fault."""
    try:
        engine = opened(place)
        found = answers(engine)
        engine.count(Where.parse(["label=a", "year>2001"]))
        engine.verify()
    except Damaged:
        return "damaged"
    except SurefindError as error:
        return "refused" if error.fix else f"no fix: {error}"
    if right is not None and found not in right:
        return "wrong answer"
    return "warned" if engine.warnings else "right answer"


def try_some(root: str, seeds: range, pipe: Connection) -> None:
    """What a child does: damage, open, tell."""
    places, right = prepared(Path(root))
    for seed in seeds:
        random = np.random.default_rng(seed)
        which = int(random.integers(len(places)))
        pipe.send(f"seed {seed}")
        place = shutil.copytree(places[which], Path(root) / "damaged")
        paths = files_of(place)
        path, other = (paths[n] for n in random.integers(0, len(paths), 2))
        path.write_bytes(mutated(path.read_bytes(), other.read_bytes(), random))
        hostile = path.parent.name == "segments" and random.random() < 0.5
        if hostile:
            resealed(place, path)
        pipe.send(outcome(place, None if hostile else right[which]))
        shutil.rmtree(place)
    pipe.send("end")


def outcomes(root: Path, seeds: range) -> Counter[str]:
    """How often each came about; in a child, so that a crash is seen."""
    child, pipe = start(try_some, str(root), seeds)
    said = received(pipe)
    child.join()
    assert child.exitcode == 0, f"exit code {child.exitcode} after {said[-1]}"
    return Counter(said[1:-1:2])
