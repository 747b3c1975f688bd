"""What an open version tells about its rows."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from surefind.engines.embedded.columns import Ints, digest_hashes
from surefind.engines.embedded.container import DIGEST
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.snapshot import Snapshot
from surefind.engines.engine import Block, Keys, Rows
from surefind.engines.where import Where
from surefind.errors import InvalidArgument

_BLOCK_BYTES = 32 * 2**20


def rows_of(snapshot: Snapshot, keys: Keys) -> Rows:
    """What is kept under these keys, in that order."""
    keys = _checked(keys)
    number, row = snapshot.with_keys(keys)
    if (number < 0).any():
        raise InvalidArgument(
            "keys",
            expected="keys of rows that are there",
            got=str(keys[number < 0][0]),
            fix="the row was removed or replaced since: search again",
        )
    return _rows_at(snapshot, number, row)


def find(snapshot: Snapshot, ids: Sequence[str]) -> Rows:
    """What is kept under these ids, in that order, each once; unknown ones are passed over."""
    found = sorted(snapshot.with_ids(list(dict.fromkeys(ids))))
    _, number, row = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return _rows_at(snapshot, number, row)


def scan(snapshot: Snapshot, where: Where | None) -> Iterator[Block]:
    """All rows that satisfy `where`, copied block by block."""
    step = max(1, _BLOCK_BYTES // (4 * snapshot.manifest.store.space.width))
    for part in snapshot.parts:
        rows = part.rows(where)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            segment = part.segment
            yield Block(segment.key[some], segment.vectors[some], segment.var[some])


def digests_of(snapshot: Snapshot, ids: Sequence[str]) -> dict[str, str]:
    return {
        ids[position]: snapshot.parts[number].segment.digest_of(row)
        for position, number, row in snapshot.with_ids(ids)
    }


def ids_of(snapshot: Snapshot, digests: Sequence[str]) -> dict[str, str]:
    """Of several rows with one digest, the newest."""
    found: dict[str, str] = {}
    asked = {digest: _unhexed(digest) for digest in digests}
    names = [name for name, digest in asked.items() if digest]
    wanted = [asked[name] for name in names]
    hashes = digest_hashes(np.frombuffer(b"".join(wanted), np.uint8).reshape(-1, DIGEST))
    for part in snapshot.parts:
        for position, row in part.segment.rows_with_digest(wanted, hashes):
            if part.lives(row):
                found[names[position]] = part.segment.id_of(row)
    return found


def var_range(snapshot: Snapshot) -> tuple[float, float]:
    pieces = snapshot.manifest.pieces
    if not pieces:
        return float("inf"), 0.0
    return min(piece.least_var for piece in pieces), max(piece.most_var for piece in pieces)


def describe(folder: Folder, snapshot: Snapshot) -> dict[str, Any]:
    """Facts for people."""
    manifest = snapshot.manifest
    kinds = Counter(part.graph.kind if part.graph else "flat" for part in snapshot.parts)
    return {
        "engine": "faiss",
        "place": str(folder.path),
        "kind": "+".join(sorted(kinds)) or "flat",
        "asked_kind": manifest.store.kind,
        "version": manifest.version,
        "rows": manifest.living,
        "removed": sum(piece.removed for piece in manifest.pieces),
        "segments": len(manifest.pieces),
        "bytes": _size(folder),
    }


def _rows_at(snapshot: Snapshot, number: Ints, row: Ints) -> Rows:
    """Rows by the number of their part and their place in it, (n,) each."""
    space = snapshot.manifest.store.space
    vectors = np.empty((len(row), space.width), np.float32)
    var = np.empty(len(row))
    for i, part in enumerate(snapshot.parts):
        here = number == i
        vectors[here], var[here] = part.segment.vectors[row[here]], part.segment.var[row[here]]
    places = [(snapshot.parts[i].segment, at) for i, at in zip(number, row.tolist(), strict=True)]
    return Rows(
        ids=tuple(segment.id_of(at) for segment, at in places),
        embeddings=space.embeddings(vectors, var),
        digests=tuple(segment.digest_of(at) for segment, at in places),
        metadata=tuple(segment.metadata_of(at) for segment, at in places),
    )


def _checked(keys: Keys) -> Ints:
    found = np.asarray(keys)
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        raise InvalidArgument(
            "keys",
            expected="whole numbers, shape (n,)",
            got=f"{found.dtype}, shape {found.shape}",
            fix="pass keys that a search or a scan gave",
        )
    return found.astype(np.int64)


def _unhexed(digest: str) -> bytes:
    """The bytes of a digest; none for what cannot be one."""
    try:
        content = bytes.fromhex(digest)
    except ValueError:
        return b""
    return content if len(content) == DIGEST and content.hex() == digest else b""


def _size(folder: Folder) -> int:
    total = 0
    for path in folder.files():
        try:
            total += path.stat().st_size
        except OSError:  # a writer cleans up meanwhile
            continue
    return total
