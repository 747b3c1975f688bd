"""What is read from a file becomes one vector, one id and one label per row, or one clear error."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import LARGEST
from surefind.errors import InvalidFile


def as_values(path: Path, values: NDArray[np.generic]) -> NDArray[np.float32]:
    """(N, D) in float32: finite, and no row without a direction."""
    if values.dtype.kind not in "fiu":
        raise InvalidFile(
            f"{path}: vectors hold {values.dtype}, not numbers",
            fix="name the array of vectors with vectors=, or save it as float32",
        )
    if values.ndim != 2 or not values.size:
        raise InvalidFile(
            f"{path}: vectors have shape {values.shape}, expected (N, D) with at least one row",
            fix="save one row per vector: vectors.reshape(len(vectors), -1)",
        )
    with np.errstate(over="ignore"):  # what is too large for float32 is refused below
        numbers = np.ascontiguousarray(values, dtype=np.float32)
    size = np.abs(numbers).max(axis=1)
    _refuse(path, ~(size <= LARGEST), f"hold nan, infinity or numbers beyond {LARGEST:g}")
    _refuse(path, size == 0, "are all zeros")
    return numbers


def as_labels(path: Path, labels: Sequence[object] | None, rows: int) -> tuple[str, ...]:
    """As text; none for all, or one for each row."""
    if labels is None:
        return ()
    texts = _texts(path, "labels", labels, rows)
    missing = texts.count("")
    if missing:
        raise InvalidFile(
            f"{path}: {missing} of {rows} labels are missing (first: row {texts.index('')})",
            fix="leave out the vectors whose label is not known",
        )
    return texts


def as_ids(path: Path, ids: Sequence[object] | None, rows: int) -> tuple[str, ...]:
    """As text, each once; "row 0", "row 1", ... when the file has none."""
    if ids is None:
        return tuple(f"row {row}" for row in range(rows))
    texts = _texts(path, "ids", ids, rows)
    if len(set(texts)) < rows:
        twice, _ = Counter(texts).most_common(1)[0]
        raise InvalidFile(
            f"{path}: {rows} ids, only {len(set(texts))} differ: {twice!r} comes more than once",
            fix="give every vector an id of its own, or name other ids with ids=",
        )
    return texts


def _texts(path: Path, role: str, values: Sequence[object], rows: int) -> tuple[str, ...]:
    if not isinstance(values, list) or len(values) != rows:
        count = len(values) if isinstance(values, list) else 1
        raise InvalidFile(
            f"{path}: {count} {role} for {rows} vectors",
            fix=f"save one per vector, in the same order, or name the right ones with {role}=",
        )
    return tuple(_text(path, role, value) for value in values)


def _text(path: Path, role: str, value: object) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise InvalidFile(
                f"{path}: {role} hold bytes that are not UTF-8: {value!r}", fix="save them as text"
            ) from error
    return str(value)


def _refuse(path: Path, bad: NDArray[np.bool_], what: str) -> None:
    if bad.any():
        count, first = int(bad.sum()), int(bad.argmax())
        raise InvalidFile(
            f"{path}: {count} of {len(bad)} vectors {what} (first: row {first})",
            fix="leave those rows out, and look at how they were made",
        )
