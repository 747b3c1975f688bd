"""How vague the images of a gallery are: how many have which variance."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 32
CONSTANT = 1e-6  # variances that differ relatively by less say nothing


def uncertainty_of(var: NDArray[np.float64], of: int) -> dict[str, Any]:
    """A histogram of the variances of those images that were looked at, `of` all there are.

    The edges are evenly spaced in log variance. There are none where all variances are equal.
    """
    facts = {"images": len(var), "of": of, "median": float(np.median(var)) if len(var) else None}
    if not len(var) or var.max() - var.min() <= CONSTANT * var.max():
        return {"edges": [], "counts": [], **facts}
    edges = np.geomspace(var.min(), var.max(), BINS + 1)  # begins and ends there exactly
    counts, _ = np.histogram(var, edges)
    return {"edges": edges.tolist(), "counts": counts.tolist(), **facts}
