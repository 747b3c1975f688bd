"""Labelled queries and what a search saw of them: what a calibration is fitted to."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.errors import InvalidArgument
from surefind.search.confidence.evidence import Numbers, Seen
from surefind.search.confidence.match_model import folds_of

LEAST_QUERIES = 50
LEAST_CLASSES = 4
LEAST_OF_EACH = 5  # right first hits, and wrong ones


class NestedDoubt(NamedTuple):
    """For each of F folds, what heads that saw no class of it say of all Q queries."""

    fold: NDArray[np.int64]  # (Q,), of each query
    doubt: Numbers  # (F, Q)
    near_doubt: Numbers  # (F, Q)


class Observed(NamedTuple):
    """Q queries with H hits each."""

    seen: Seen
    match: NDArray[np.bool_]  # (Q, H)
    groups: NDArray[np.int64]  # (Q,), their classes
    belongs: NDArray[np.bool_]  # (Q,), whether the gallery has a match at all
    gallery: int  # images in it
    copies: int = 0  # of queries, left out of the gallery that those searched
    nested: NestedDoubt | None = None  # none where nothing was learned

    @property
    def classes(self) -> int:
        return len(np.unique(self.groups))

    @property
    def fold(self) -> NDArray[np.int64]:
        """Of each query, (Q,)."""
        return folds_of(self.groups) if self.nested is None else self.nested.fold

    @property
    def unseen(self) -> tuple[Seen, ...]:
        """For each fold, what was seen with nothing learned from its classes; empty if the same."""
        if self.nested is None:
            return ()
        each = zip(self.nested.doubt, self.nested.near_doubt, strict=True)
        return tuple(self.seen._replace(doubt=its, near_doubt=near) for its, near in each)


def check_enough(observed: Observed) -> None:
    """Refuse what no confidence can be fitted to, saying how much is missing."""
    check_queries(observed.groups)
    if not observed.belongs.any():
        raise InvalidArgument(
            "labelled",
            expected="queries of which the index holds matches",
            got=f"{observed.classes} classes, none of which has another image in it",
            fix="label queries as the images of the index are; at least two images to a class",
        )
    right = int(observed.match[:, 0].sum())
    counts = {"right": right, "wrong": len(observed.match) - right}
    for what, found in counts.items():
        what = f"queries whose first hit is {what}"
        _require(what, found, LEAST_OF_EACH, observed.groups)


def check_queries(groups: NDArray[np.int64]) -> None:
    """The part of it that is known before any query is asked."""
    _require("labelled queries", len(groups), LEAST_QUERIES, groups)
    _require("classes", len(np.unique(groups)), LEAST_CLASSES, groups)


def _require(what: str, found: int, least: int, groups: NDArray[np.int64]) -> None:
    if found < least:
        raise InvalidArgument(
            "labelled",
            expected=f"at least {least} {what}",
            got=f"{found} (of {len(groups)} queries of {len(np.unique(groups))} classes)",
            fix=f"label {least - found} more: queries of several classes, easy and hard ones",
        )
