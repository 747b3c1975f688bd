"""An open segment: its columns where they lie in the file, and what can be looked up in them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from surefind.engines.embedded.columns import Columns, Hashes, Ints, Texts, digest_hashes, hashes
from surefind.engines.embedded.container import columns_of, mapped
from surefind.engines.embedded.damage import Damaged
from surefind.engines.embedded.flat import Flat
from surefind.engines.embedded.selecting import Mask, Remembered, name_of, satisfying
from surefind.engines.where import Metadata, Where


class Segment:
    """Rows that never change; which of them are removed is not known here."""

    def __init__(self, path: Path, file: BinaryIO, *, rows: int, width: int) -> None:
        """Maps the file; what its columns say is checked, as they are followed without looking."""
        self.path = path
        self._columns = columns = columns_of(path, mapped(path, file))
        self.id = Texts(columns["id_offset"], columns["id"])
        self.metadata = Texts(columns["metadata_offset"], columns["metadata"])
        self.key: Ints = columns["key"]
        self.var: NDArray[np.float64] = columns["var"]
        self.vectors: NDArray[np.float32] = columns["vectors"]
        if self.vectors.shape != (rows, width):
            raise Damaged(path, f"it holds {self.vectors.shape} numbers, not {(rows, width)}")
        self._check_columns()
        self.flat = Flat(self.vectors, before=columns["preface"])
        self._masks = Remembered[Mask]()

    def __len__(self) -> int:
        return len(self.key)

    def columns(self) -> Columns:
        """All rows, to be copied from."""
        id_hash = np.zeros(len(self), np.uint64)
        id_hash[self._columns["id_row"]] = self._columns["id_hash"]
        has_digest, digest = self._columns["has_digest"], self._columns["digest"]
        return Columns(
            self.key, self.var, self.vectors, has_digest, digest, self.id, self.metadata, id_hash
        )

    def satisfying(self, where: Where) -> Mask:
        """The rows that satisfy all conditions."""
        return self._masks.get(name_of(where), lambda: self._satisfying(where))

    def rows_with_id(self, ids: Sequence[bytes], hashed: Hashes) -> Iterator[tuple[int, int]]:
        """(position in `ids`, row) of each that is here, removed or not."""
        for asked, row in self._looked_up("id", hashed):
            if self.id[row] == ids[asked]:
                yield asked, row

    def rows_with_digest(
        self, digests: Sequence[bytes], hashed: Hashes
    ) -> Iterator[tuple[int, int]]:
        """(position in `digests`, row) of each that is here, removed or not."""
        for asked, row in self._looked_up("digest", hashed):
            if self._columns["digest"][row].tobytes() == digests[asked]:
                yield asked, row

    def rows_with_key(self, keys: Ints) -> Ints:
        """The row of each key; -1 where it is not here."""
        row = np.searchsorted(self.key, keys)
        row[row == len(self)] = 0
        return np.where(self.key[row] == keys, row, -1)

    def id_of(self, row: int) -> str:
        try:
            return self.id[row].decode()
        except UnicodeDecodeError as error:
            raise Damaged(self.path, f"the id of row {row} is not a text") from error

    def digest_of(self, row: int) -> str:
        """In hex; nothing where it is unknown."""
        digest: bytes = self._columns["digest"][row].tobytes()
        return digest.hex() if self._columns["has_digest"][row] else ""

    def metadata_of(self, row: int) -> Metadata:
        try:
            found: Metadata = json.loads(self.metadata[row][:-1])
        except (ValueError, RecursionError) as error:
            raise Damaged(self.path, f"the metadata of row {row} is not readable") from error
        return found

    def all_can_be_found(self) -> bool:
        """Whether every id and every digest leads to its row."""
        columns = self._columns
        known = np.flatnonzero(columns["has_digest"])
        ids = [self.id[row] for row in range(len(self))]
        return (
            np.array_equal(hashes(ids), self.columns().id_hash)
            and np.array_equal(np.sort(columns["id_row"]), np.arange(len(self)))
            and np.array_equal(np.sort(columns["digest_row"]), known)
            and np.array_equal(
                digest_hashes(columns["digest"][columns["digest_row"]]), columns["digest_hash"]
            )
        )

    def _satisfying(self, where: Where) -> Mask:
        try:
            return satisfying(where, self.metadata, self.var)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise Damaged(self.path, "its metadata is not readable") from error

    def _looked_up(self, name: str, hashed: Hashes) -> Iterator[tuple[int, int]]:
        known, rows = self._columns[f"{name}_hash"], self._columns[f"{name}_row"]
        first, last = (np.searchsorted(known, hashed, side) for side in ("left", "right"))
        for asked in np.flatnonzero(first < last).tolist():
            yield from ((asked, int(row)) for row in rows[first[asked] : last[asked]])

    def _check_columns(self) -> None:
        rising = (self.key, self.id.offset, self.metadata.offset)
        sorted_ = (self._columns["id_hash"], self._columns["digest_hash"])
        rows = (self._columns["id_row"], self._columns["digest_row"])
        sound = (
            self.key[0] >= 0
            and all((column[1:] > column[:-1]).all() for column in rising)
            and all((column[1:] >= column[:-1]).all() for column in sorted_)
            and all((column < len(self)).all() for column in rows)
            and all(
                texts.offset[0] == 0 and texts.offset[-1] == len(texts.content)
                for texts in (self.id, self.metadata)
            )
        )
        if not sound:
            raise Damaged(self.path, "its columns contradict each other")
