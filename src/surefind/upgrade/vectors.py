"""Vectors from a file, with their ids and labels, whatever program wrote it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surefind.errors import InvalidArgument, InvalidFile
from surefind.upgrade.arrays import npz_headers, read_npy, read_npz
from surefind.upgrade.columns import Columns
from surefind.upgrade.naming import IDS, LABELS, Wanted, choose, choose_vectors
from surefind.upgrade.rows import as_ids, as_labels, as_values

Found = tuple[NDArray[np.generic], Sequence[object] | None, Sequence[object] | None]


@dataclass(frozen=True, eq=False)
class Vectors:
    """One vector per row, as they were in the file."""

    values: NDArray[np.float32]  # (N, D)
    ids: tuple[str, ...]  # (N,) unique
    labels: tuple[str, ...]  # (N,), or empty when there are none
    source: Path

    def __len__(self) -> int:
        return len(self.values)


def read_vectors(
    path: str | Path,
    *,
    labels: str | None = None,
    ids: str | None = None,
    vectors: str | None = None,
) -> Vectors:
    """Read a .npz, .npy or .parquet file.

    The arguments name its arrays or columns, where they are not called as usual. The labels of
    NAME.npy are in NAME.labels.npy or NAME.labels.txt, one per line, if there are any.
    """
    path = Path(path)
    readers = {".npz": _from_npz, ".npy": _from_npy, ".parquet": _from_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidFile(
            f"{path}: vectors are read from {', '.join(readers)}, not {path.suffix or 'this'}",
            fix="convert it: np.savez('vectors.npz', vectors=vectors, labels=labels)",
        )
    if not path.is_file():
        raise InvalidFile(f"{path} is not there or not a file", fix="check the path")
    values, its_labels, its_ids = reader(path, Wanted(vectors, labels, ids))
    checked = as_values(path, values)
    return Vectors(
        checked,
        as_ids(path, its_ids, len(checked)),
        as_labels(path, its_labels, len(checked)),
        path,
    )


def _from_npz(path: Path, wanted: Wanted) -> Found:
    headers = npz_headers(path)
    described = {name: f"{head.dtype} {head.shape}" for name, head in headers.items()}
    tables = [name for name, head in headers.items() if len(head.shape) == 2]
    main = choose_vectors(path, wanted.vectors, described, fitting=tables)
    rows = headers[main].shape[:1]
    columns = [name for name, head in headers.items() if head.shape in (rows, (*rows, 1))]
    others = (
        choose(path, role, given, usual, described, fitting=columns)
        for role, given, usual in (("labels", wanted.labels, LABELS), ("ids", wanted.ids, IDS))
    )
    labels, ids = (
        read_npz(path, name, headers[name]).reshape(-1).tolist() if name else None
        for name in others
    )
    return read_npz(path, main, headers[main]), labels, ids


def _from_npy(path: Path, wanted: Wanted) -> Found:
    for role, given in wanted._asdict().items():
        if given is not None:
            raise InvalidArgument(
                role,
                expected="nothing, since a .npy file is a single array without a name",
                got=repr(given),
                fix=f"put labels beside it in {path.stem}.labels.txt, or use a .npz",
            )
    beside = [path.with_name(f"{path.stem}.labels{ending}") for ending in (".npy", ".txt")]
    found = [file for file in beside if file.exists()]
    if len(found) > 1:
        raise InvalidFile(f"labels are in both {found[0]} and {found[1]}", fix="remove one")
    labels = None
    if found:
        labels = (
            _lines(found[0])
            if found[0].suffix == ".txt"
            else read_npy(found[0]).reshape(-1).tolist()
        )
    return read_npy(path), labels, None


def _from_parquet(path: Path, wanted: Wanted) -> Found:
    return Columns(path).read(wanted)


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(
            f"{path} cannot be read as text: {error}", fix="one label per line, in UTF-8"
        ) from error
