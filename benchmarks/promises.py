"""Are promised precisions kept? Over many random splits into calibration and test queries."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.search.confidence.evidence import Numbers
from surefind.search.confidence.guarantee import promise_precision

PRECISION, PROBABILITY = 0.9, 0.9


class Kept(NamedTuple):
    """Of one confidence, over all splits; nothing promised is nothing broken."""

    promised: float  # share of splits in which anything could be promised
    kept_by_half: float  # share of splits in which the other half has the precision
    kept_by_all: float  # the same of all queries, of which both halves are samples
    precision: float  # mean over splits with a promise, of the other half
    coverage: float  # mean over splits, of the other half


def kept_promises(
    confidence: Numbers,
    right: NDArray[np.bool_],
    groups: NDArray[np.int64],
    *,
    by: str,
    next_half: bool,
    splits: int,
) -> Kept:
    """Half of the classes (or queries) calibrate, for the next half or for the long run."""
    draw = np.random.default_rng(0)
    units = groups if by == "class" else np.arange(len(groups))
    found = []
    for _ in range(splits):
        names = draw.permutation(np.unique(units))
        ours = np.isin(units, names[: len(names) // 2])
        promise = promise_precision(
            confidence[ours],
            right[ours],
            units[ours],
            precision=PRECISION,
            probability=PROBABILITY,
            ahead=int((~ours).sum()) if next_half else None,
        )
        found.append(_judged(promise.threshold, confidence, right, ~ours))
    promised, by_half, by_all, precision, coverage = np.array(found).T
    return Kept(
        float(promised.mean()),
        float(by_half.mean()),
        float(by_all.mean()),
        float(np.nanmean(precision)) if promised.any() else float("nan"),
        float(coverage.mean()),
    )


def _judged(
    threshold: float | None,
    confidence: Numbers,
    right: NDArray[np.bool_],
    rest: NDArray[np.bool_],
) -> tuple[float, ...]:
    if threshold is None:
        return 0.0, 1.0, 1.0, np.nan, 0.0
    sure = confidence >= threshold
    of_rest, of_all = (float(right[sure & some].mean()) for some in (rest, rest | True))
    return 1.0, of_rest >= PRECISION, of_all >= PRECISION, of_rest, float(sure[rest].mean())
