"""What a threshold on the confidence costs and gives, measured on the calibration's queries."""

from typing import Any

import numpy as np
import torch

from surefind.metrics.bins import reliability_bins
from surefind.search.confidence.quality import Curve

STEPS = 100


def threshold_curve(curve: Curve, *, promised: float | None = None) -> list[dict[str, Any]]:
    """For thresholds 0.00 to 1.00: how many first hits are as sure, how many of them right.

    The `promised` threshold has a row of its own.

    >>> curve = Curve(confidence=(0.9, 0.4), baseline=(0.5, 0.5), right=(True, False))
    >>> threshold_curve(curve)[50]
    {'threshold': 0.5, 'coverage': 0.5, 'precision': 1.0, 'answered': 1, 'right': 1}
    """
    thresholds = np.arange(STEPS + 1) / STEPS
    if promised is not None:
        thresholds = np.union1d(thresholds, [promised])
    order = np.argsort(curve.confidence)
    confidence = np.array(curve.confidence)[order]
    right_up_to = np.concatenate([[0], np.cumsum(np.array(curve.right, dtype=np.int64)[order])])
    below = np.searchsorted(confidence, thresholds)  # equal to the threshold is sure enough
    answered, right = len(confidence) - below, right_up_to[-1] - right_up_to[below]
    return [
        {
            "threshold": threshold,
            "coverage": count / max(len(confidence), 1),
            "precision": matches / count if count else None,
            "answered": count,
            "right": matches,
        }
        for threshold, count, matches in zip(
            thresholds.tolist(), answered.tolist(), right.tolist(), strict=True
        )
    ]


def reliability(curve: Curve, bins: int = 10) -> list[dict[str, Any]]:
    """Bins of equal numbers of queries, least sure first: what was said and what was true.

    Queries of equal confidence stay together, so a bin may be larger than others or missing.
    """
    if not curve.confidence:
        return []
    found = reliability_bins(
        torch.tensor(curve.confidence, dtype=torch.float64),
        torch.tensor(curve.right, dtype=torch.float64),
        definition="probability",
        bins=bins,
    )
    rows = zip(*(part.tolist() for part in found), strict=True)
    return [
        {"confidence": confidence, "right": right, "queries": int(queries)}
        for confidence, right, queries in rows
        if queries
    ]
