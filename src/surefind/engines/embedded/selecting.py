"""Which rows of a segment a search may find."""

import json
from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from surefind.engines.embedded.columns import Texts
from surefind.engines.embedded.library import faiss
from surefind.engines.where import COMPARE, VAR, Condition, Where

Mask = NDArray[np.bool_]
_ROWS_AT_ONCE = 4096


class Selection:
    """Some rows of a segment, not all."""

    def __init__(self, mask: Mask) -> None:
        self.mask, self.count = mask, int(np.count_nonzero(mask))

    @property
    def share(self) -> float:
        return self.count / len(self.mask)

    def selector(self) -> Any:
        return faiss.IDSelectorBitmap(self._packed)

    @cached_property
    def _packed(self) -> NDArray[np.uint8]:
        return np.packbits(self.mask, bitorder="little")


T = TypeVar("T")


class Remembered(Generic[T]):
    """The last few answers to a question that takes long; for several threads at once."""

    def __init__(self, most: int = 32) -> None:
        self._answers: dict[Hashable, T] = {}
        self._lock, self._most = Lock(), most

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, name: Hashable, answer: Callable[[], T]) -> T:
        found = self._answers.get(name)
        if found is None:
            found = answer()
            with self._lock:
                self._answers[name] = found
                if len(self._answers) > self._most:
                    del self._answers[next(iter(self._answers))]
        return found


def name_of(where: Where) -> Hashable:
    """Equal for conditions that mean the same: 1 is not true here, as it is to Python."""
    return tuple((c.field, c.op, c.kind, c.value) for c in where.conditions)


def satisfying(where: Where, metadata: Texts, var: NDArray[np.float64]) -> Mask:
    """The rows that satisfy all conditions; raises what JSON raises if metadata is not."""
    mask = np.ones(len(var), dtype=bool)
    others = []
    for condition in where.conditions:
        if condition.field == VAR:
            mask &= _compared(condition, var)
        else:
            others.append(condition)
    if others and mask.any():
        holds = (all(c.holds(row, 0.0) for c in others) for row in parsed(metadata))
        mask &= np.fromiter(holds, dtype=bool, count=len(var))
    return mask


def parsed(metadata: Texts) -> Iterator[dict[str, Any]]:
    """All rows' metadata; many at a time, as that is several times quicker."""
    for start in range(0, len(metadata), _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, len(metadata))
        rows = json.loads(b"[" + metadata.run(start, stop)[:-1] + b"]")
        if len(rows) != stop - start:
            raise ValueError("not one object per row")
        yield from rows


def _compared(condition: Condition, var: NDArray[np.float64]) -> Mask:
    if condition.op == "in":
        return np.isin(var, np.array(condition.values, dtype=np.float64))
    return np.asarray(COMPARE[condition.op](var, condition.value))
