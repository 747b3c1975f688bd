"""How good a confidence is on queries it was not fitted to, beside what distances say."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from surefind import metrics
from surefind.search.confidence.model import fit_confidence
from surefind.search.confidence.observed import Observed
from surefind.search.evidence.seen import Numbers

BASELINE = ("distance",)  # the nearest distance, calibrated in the same way


@dataclass(frozen=True)
class Quality:
    """Of the first hit; each query judged by a fit to other classes."""

    right: float  # share of queries whose first hit is a match
    auroc: float  # of telling wrong first hits from right ones
    aurc: float
    ece: float
    brier: float
    baseline_auroc: float  # the same by the nearest distance alone
    baseline_ece: float
    baseline_brier: float


@dataclass(frozen=True)
class Curve:
    """What was said of each query's first hit by a fit to other classes, and the truth."""

    confidence: tuple[float, ...]
    baseline: tuple[float, ...]  # by the nearest distance alone
    right: tuple[bool, ...]


def curve_of(confidence: Numbers, observed: Observed) -> Curve:
    """From cross-fitted confidence (Q, H)."""
    alone = fit_confidence(observed.seen, observed.match, observed.groups, names=BASELINE)
    return Curve(
        tuple(confidence[:, 0].tolist()),
        tuple(alone.confidence[:, 0].tolist()),
        tuple(observed.match[:, 0].tolist()),
    )


def quality_of(curve: Curve) -> Quality:
    right = np.array(curve.right)
    own, other = _first(curve.confidence, right), _first(curve.baseline, right)
    return Quality(
        right=float(right.mean()),
        auroc=own["auroc"],
        aurc=own["aurc"],
        ece=own["ece"],
        brier=own["brier"],
        baseline_auroc=other["auroc"],
        baseline_ece=other["ece"],
        baseline_brier=other["brier"],
    )


def _first(confidence: tuple[float, ...], right: NDArray[np.bool_]) -> dict[str, float]:
    sure, true = torch.tensor(confidence, dtype=torch.float64), torch.from_numpy(right)
    return {
        "auroc": metrics.auroc(-sure, ~true),
        "aurc": metrics.aurc(-sure, ~true),
        "ece": metrics.expected_calibration_error(sure, true.double(), definition="probability"),
        "brier": float(metrics.brier_score(sure, true).mean()),
    }
