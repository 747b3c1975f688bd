"""A map kept beside its index, so that it is projected once."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surefind.errors import SurefindError
from surefind.files import make_writable, write_whole
from surefind.serve.gallery.sketch import Sketch
from surefind.storage import read_small, seal, unseal

SCHEMA = 1  # raised when positions of the same images are found in another way

Positions = NDArray[np.float32]


def digest_of(sketch: Sketch) -> str:
    """Of all that the positions follow from."""
    digest = hashlib.sha256(json.dumps([SCHEMA, sketch.means.shape, sketch.ids]).encode())
    digest.update(np.ascontiguousarray(sketch.means, dtype="<f4").tobytes())
    return digest.hexdigest()


def read_map(folder: Path, sketch: Sketch) -> Positions | None:
    """The positions of these images (n, 2), if the folder holds them undamaged."""
    path = _path(folder, digest_of(sketch))
    try:
        facts = unseal(path, read_small(path))
        positions = np.array([facts["x"], facts["y"]], dtype=np.float32).T
    except (SurefindError, KeyError, ValueError, TypeError, OverflowError):
        return None  # missing or damaged: it is projected again
    fits = positions.shape == (len(sketch), 2) and bool(((positions >= 0) & (positions <= 1)).all())
    return positions if fits else None


def write_map(folder: Path, sketch: Sketch, *, positions: Positions) -> None:
    """Keep positions instead of older ones; where that is not possible, do nothing."""
    if not folder.parent.is_dir():
        return  # the index is gone: nothing of it is made anew
    path = _path(folder, digest_of(sketch))
    x, y = positions.astype(np.float64).T.tolist()
    with suppress(SurefindError, OSError):
        make_writable(folder)
        write_whole(path, seal({"schema": SCHEMA, "x": x, "y": y}))
        for old in [*folder.glob("map-*.json"), *folder.glob(".map-*.part")]:
            if old != path:
                old.unlink(missing_ok=True)


def _path(folder: Path, digest: str) -> Path:
    return folder / f"map-{digest[:32]}.json"
