"""Ground truth: which images match each other, by label or by position."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree  # type: ignore[import-untyped]

from surefind.errors import InvalidArgument, InvalidFile
from surefind.images.catalog import Catalog
from surefind.validation import check_number

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

_QUERIES_AT_ONCE = 1024


class Matches(ABC):
    """Matches among the rows of a catalog; an image is neither match nor negative of itself."""

    @abstractmethod
    def positives(self, row: int) -> Rows:
        """Return the other rows that match this one, ascending."""

    @abstractmethod
    def count(self, rows: Rows, among: Rows) -> Rows:
        """Count the rows of `among` that each row matches, (len(rows),)."""

    @abstractmethod
    def match_pairs(self, rows: Rows, others: Rows) -> Mask:
        """Whether each row matches the corresponding other; shapes are broadcast."""

    def is_match(self, rows: Rows, others: Rows) -> Mask:
        """Which of the others each row matches, (len(rows), len(others))."""
        return self.match_pairs(np.asarray(rows)[:, None], np.asarray(others)[None, :])

    def is_negative(self, rows: Rows, others: Rows) -> Mask:
        """Which of the others do not match each row, (len(rows), len(others))."""
        unlike: Mask = ~self.is_match(rows, others) & (rows[:, None] != others[None, :])
        return unlike


class ByLabel(Matches):
    """Images of one label match, all others are negatives."""

    def __init__(self, codes: ArrayLike) -> None:
        self.codes = np.asarray(codes, dtype=np.int64)
        if self.codes.ndim != 1:
            expected = "one label per image, shape (N,)"
            raise InvalidArgument("codes", expected=expected, got=f"shape {self.codes.shape}")
        self._order = np.argsort(self.codes, kind="stable")
        self._sorted = self.codes[self._order]

    def positives(self, row: int) -> Rows:
        code = self.codes[row]
        first, last = np.searchsorted(self._sorted, [code, code + 1])
        alike: Rows = self._order[first:last]
        others: Rows = alike[alike != row]
        return others

    def count(self, rows: Rows, among: Rows) -> Rows:
        members = np.bincount(self.codes[among], minlength=int(self.codes.max(initial=0)) + 1)
        matched: Rows = members[self.codes[rows]] - np.isin(rows, among)
        return matched

    def match_pairs(self, rows: Rows, others: Rows) -> Mask:
        alike: Mask = (self.codes[rows] == self.codes[others]) & (rows != others)
        return alike


class ByPosition(Matches):
    """Images taken within `radius` metres match, all others are negatives."""

    def __init__(self, positions: ArrayLike, *, radius: float = 25.0) -> None:
        self.metres = np.asarray(positions, dtype=np.float64)
        if self.metres.ndim != 2 or not np.isfinite(self.metres).all():
            raise InvalidArgument(
                "positions",
                expected="finite metres, shape (N, 2) or (N, 3)",
                got=f"shape {self.metres.shape}, or nan or infinity in it",
            )
        check_number("radius", radius, "a distance above 0", lambda metres: metres > 0)
        self.radius = radius
        self._tree = cKDTree(self.metres)

    def positives(self, row: int) -> Rows:
        generous = self.radius * (1 + 1e-9)  # is_match decides
        near = self._tree.query_ball_point(self.metres[row], generous, return_sorted=True)
        near = np.array(near, dtype=np.int64)
        others: Rows = near[self.is_match(np.array([row]), near)[0]]
        return others

    def count(self, rows: Rows, among: Rows) -> Rows:
        tree = cKDTree(self.metres[among])
        generous = self.radius * (1 + 1e-9)
        counts = np.zeros(len(rows), dtype=np.int64)
        for start in range(0, len(rows), _QUERIES_AT_ONCE):
            block = rows[start : start + _QUERIES_AT_ONCE]
            near = tree.query_ball_point(self.metres[block], generous)
            owner = np.repeat(np.arange(len(block)), [len(found) for found in near])
            found = among[np.concatenate(near).astype(np.int64)]
            matching = owner[self.match_pairs(block[owner], found)]
            counts[start : start + len(block)] = np.bincount(matching, minlength=len(block))
        return counts

    def match_pairs(self, rows: Rows, others: Rows) -> Mask:
        squared = np.zeros(np.broadcast_shapes(np.shape(rows), np.shape(others)))
        for axis in self.metres.T:  # one by one: less memory
            squared += np.square(axis[rows] - axis[others])
        near: Mask = (squared <= self.radius**2) & (rows != others)
        return near


def matches_of(catalog: Catalog, radius: float = 25.0) -> Matches:
    """Return matches by label if the catalog has labels, else by position."""
    if catalog.labels:
        return ByLabel(catalog.codes)
    if catalog.positions:
        return ByPosition(catalog.positions, radius=radius)
    raise InvalidFile(
        f"{catalog.root}: its images have neither labels nor positions",
        fix="put each class in a folder of its own, or give a CSV with a label column",
    )
