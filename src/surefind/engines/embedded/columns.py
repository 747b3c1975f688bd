"""Rows as columns of numbers and bytes, which is how they are kept."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.engines.embedded.container import DIGEST
from surefind.engines.engine import Rows
from surefind.engines.space import Space
from surefind.errors import InvalidArgument

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
_SHA256 = re.compile(f"[0-9a-f]{{{2 * DIGEST}}}")


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts one after the other; number i is content[offset[i] : offset[i + 1]]."""

    offset: Ints  # (n + 1,)
    content: Bytes

    def __len__(self) -> int:
        return len(self.offset) - 1

    def __getitem__(self, row: int) -> bytes:
        return self.run(row, row + 1)

    def run(self, start: int, stop: int) -> bytes:
        """Several that follow each other, as one."""
        return self.content[self.offset[start] : self.offset[stop]].tobytes()


class Columns(NamedTuple):
    """Rows in the order of their keys."""

    key: Ints
    var: NDArray[np.float64]
    vectors: NDArray[np.float32]
    has_digest: NDArray[np.uint8]
    digest: Bytes  # (n, 32), zero where there is none
    id: Texts
    metadata: Texts  # JSON and a comma, so that a run of rows is nearly an array
    id_hash: Hashes


def columns_from(rows: Rows, space: Space) -> Columns:
    """Rows that are new, checked once more: one NaN would poison every search."""
    vectors, var = space.stored(rows.embeddings), space.var(rows.embeddings)
    if not (np.isfinite(vectors).all() and np.isfinite(var).all() and (var > 0).all()):
        raise InvalidArgument(
            "embeddings",
            expected="finite numbers and positive variances",
            got="others",
            fix="look for a diverged model",
        )
    ids = [encoded(name) for name in rows.ids]
    digests = [_digest(digest) for digest in rows.digests]
    return Columns(
        key=np.arange(len(ids), dtype=np.int64),
        var=np.ascontiguousarray(var, dtype=np.float64),
        vectors=vectors,
        has_digest=np.array([bool(digest) for digest in digests], dtype=np.uint8),
        digest=np.frombuffer(b"".join(d or bytes(DIGEST) for d in digests), np.uint8).reshape(
            len(ids), DIGEST
        ),
        id=texts(ids),
        metadata=texts([json.dumps(dict(row)).encode() + b"," for row in rows.metadata]),
        id_hash=hashes(ids),
    )


def encoded(name: str) -> bytes:
    return name.encode(errors="surrogatepass")


def texts(several: Sequence[bytes]) -> Texts:
    offset = np.zeros(len(several) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in several], out=offset[1:])
    return Texts(offset, np.frombuffer(b"".join(several), np.uint8))


def hashes(ids: Sequence[bytes]) -> Hashes:
    """A number per id by which it is looked up; it is the same in every process."""
    made = b"".join(hashlib.blake2b(name, digest_size=8).digest() for name in ids)
    return np.frombuffer(made, "<u8")


def digest_hashes(digest: Bytes) -> Hashes:
    """The first bytes of digests (n, 32) as numbers: they are as good as random."""
    return np.ascontiguousarray(digest[:, :8]).view("<u8")[:, 0]


def _digest(digest: str) -> bytes:
    if digest and not _SHA256.fullmatch(digest):
        raise InvalidArgument(
            "digests",
            expected="a sha256 in hex: 64 of 0-9a-f; or nothing",
            got=repr(digest[:80]),
            fix="hashlib.sha256(content).hexdigest()",
        )
    return bytes.fromhex(digest)
