"""Labelled queries and what a search saw of them: what a calibration is fitted to."""

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.errors import InvalidArgument
from surefind.search.evidence.seen import Numbers, Seen

LEAST_QUERIES = 50
LEAST_CLASSES = 4
LEAST_OF_EACH = 10  # right first hits, and wrong ones


class Observed(NamedTuple):
    """Q queries with H hits each."""

    seen: Seen
    match: NDArray[np.bool_]  # (Q, H)
    groups: NDArray[np.int64]  # (Q,), their classes
    belongs: NDArray[np.bool_]  # (Q,), whether the gallery has a match at all
    gallery: int  # images in it

    @property
    def classes(self) -> int:
        return len(np.unique(self.groups))


def check_enough(observed: Observed) -> None:
    """Refuse what no confidence can be fitted to, saying how much is missing."""
    right = int(observed.match[:, 0].sum()) if len(observed.match) else 0
    counts = {
        "labelled queries": (len(observed.match), LEAST_QUERIES),
        "classes": (observed.classes, LEAST_CLASSES),
        "queries whose first hit is right": (right, LEAST_OF_EACH),
        "queries whose first hit is wrong": (len(observed.match) - right, LEAST_OF_EACH),
    }
    for what, (found, least) in counts.items():
        if found < least:
            raise InvalidArgument(
                "labelled",
                expected=f"at least {least} {what}",
                got=f"{found} (of {len(observed.match)} queries of {observed.classes} classes)",
                fix=f"label {least - found} more: queries of several classes, easy and hard ones",
            )


def novelty_values(seen: Seen) -> Numbers:
    """How strange a query is here: the logarithm of its nearest distance, (Q,)."""
    nearest = seen.profile[:, 0]
    least = np.maximum(seen.profile[:, -1] * 1e-6, np.finfo(np.float64).tiny)
    return np.log(np.maximum(nearest, least))


def largest_share(groups: NDArray[np.int64]) -> float:
    """Of the queries, in one class."""
    return Counter(groups.tolist()).most_common(1)[0][1] / len(groups)
