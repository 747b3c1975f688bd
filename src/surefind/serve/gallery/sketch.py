"""An even sample of a gallery, however large: enough to see what is in it."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefind.engines.engine import Engine, EngineError, Keys
from surefind.errors import InvalidArgument
from surefind.search.index import Index
from surefind.serve.gallery.items import item_of

MOST = 2000  # images of a sketch; a map of them takes 11 s on one core
LOOK_AT = 100_000  # rows
LABEL = "label"  # the field of metadata that names the class
TRIES = 3


@dataclass(frozen=True)
class Sketch:
    """Images in random order, so that the first of them are an even sample as well."""

    ids: tuple[str, ...]
    items: tuple[str, ...]
    labels: tuple[str | None, ...]
    var: NDArray[np.float64]  # (n,)
    means: NDArray[np.float32]  # (n, D)
    every_var: NDArray[np.float64]  # (images,), also of rows that are not in the sketch
    images: int  # rows looked at
    of: int  # rows there are

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def labelled(self) -> bool:
        return any(label is not None for label in self.labels)


def sketch(
    source: Index | Engine, *, most: int = MOST, look_at: int = LOOK_AT, seed: int = 0
) -> Sketch:
    """`most` of the first `look_at` rows, each as likely as any other; if fewer, all.

    Which ones follows from their keys and the seed, so that a few new rows change little.
    """
    engine = source._engine if isinstance(source, Index) else source
    for _ in range(TRIES - 1):
        try:
            return _sketch(engine, most=most, look_at=look_at, seed=seed)
        except (InvalidArgument, EngineError):  # another process removed a row in between
            continue
    return _sketch(engine, most=most, look_at=look_at, seed=seed)


def _sketch(engine: Engine, *, most: int, look_at: int, seed: int) -> Sketch:
    keys, every_var = _first_rows(engine, look_at)
    rows = engine.rows(keys[np.argsort(_places(keys, seed))[:most]])
    labels = [metadata.get(LABEL) for metadata in rows.metadata]
    return Sketch(
        ids=rows.ids,
        items=tuple(map(item_of, rows.ids)),
        labels=tuple(None if label is None else str(label) for label in labels),
        var=engine.space.var(rows.embeddings),
        means=rows.embeddings.mean.numpy(),
        every_var=every_var,
        images=len(keys),
        of=max(engine.count(), len(keys)),  # rows may have been removed since
    )


def _first_rows(engine: Engine, count: int) -> tuple[Keys, NDArray[np.float64]]:
    keys, var, missing = [], [], count
    for block in engine.scan():
        keys.append(block.keys[:missing])
        var.append(block.var[:missing])
        missing -= len(keys[-1])
        if missing <= 0:
            break
    if not keys:
        return np.empty(0, np.int64), np.empty(0)
    return np.concatenate(keys), np.concatenate(var)


def _places(keys: Keys, seed: int) -> NDArray[np.uint64]:
    """A random number for each key, no two alike where the keys are numbers.

    The mixer of SplitMix64 (Steele, Lea and Flood 2014), which maps 64 bits one to one.
    """
    mixed = _codes(keys) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _codes(keys: Keys) -> NDArray[np.uint64]:
    """Numbers as they are; of texts 64 bits, of which no two are alike among millions."""
    if np.issubdtype(keys.dtype, np.integer):
        return keys.astype(np.uint64)
    texts = (str(key).encode() for key in keys)
    digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
