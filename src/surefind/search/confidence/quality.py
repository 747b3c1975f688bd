"""How good a confidence is on queries it was not fitted to, beside what distances say."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from surefind import metrics
from surefind.search.confidence.evidence import Numbers, Seen
from surefind.search.confidence.match_model import FittedConfidence, fit_confidence
from surefind.search.confidence.observed import Observed

BASELINE = ("distance",)  # the nearest distance, calibrated in the same way


@dataclass(frozen=True)
class Quality:
    """Of the first hit; each query judged by a fit to other classes.

    AUROCs are averaged within the folds of that cross-fitting (None where no fold has right and
    wrong first hits), ECE is debiased.
    """

    right: float  # share of queries whose first hit is a match
    auroc: float | None  # of telling wrong first hits from right ones
    aurc: float
    ece: float
    brier: float
    baseline_auroc: float | None  # the same by the nearest distance alone
    baseline_ece: float
    baseline_brier: float
    floor: float  # ECE of a perfect model with as many queries
    baseline_floor: float
    ratio_auroc: float | None  # of d1/d20, which needs no labels


@dataclass(frozen=True)
class Curve:
    """What was said of each query's first hit by a fit to other classes, and the truth."""

    confidence: tuple[float, ...]
    baseline: tuple[float, ...]  # by the nearest distance alone
    right: tuple[bool, ...]
    fold: tuple[int, ...] = ()  # queries of one fold were judged by one fit


def curve_of(fitted: FittedConfidence, observed: Observed) -> Curve:
    """Cross-fitted confidence of first hits, and that of the baseline in the same folds."""
    alone = fit_confidence(observed.seen, observed.match, observed.fold, names=BASELINE)
    return Curve(
        tuple(fitted.confidence[:, 0].tolist()),
        tuple(alone.confidence[:, 0].tolist()),
        tuple(observed.match[:, 0].tolist()),
        tuple(observed.fold.tolist()),
    )


def quality_of(curve: Curve, seen: Seen) -> Quality:
    """Measure a curve, beside the distances of the same queries."""
    right, fold = torch.tensor(curve.right), torch.tensor(curve.fold)
    own, other = _probability(curve.confidence, right), _probability(curve.baseline, right)

    def auroc(uncertainty: Numbers) -> float | None:
        found = metrics.auroc_within(torch.from_numpy(uncertainty), ~right, fold)
        return None if math.isnan(found) else found

    return Quality(
        right=float(right.double().mean()),
        auroc=auroc(-np.array(curve.confidence)),
        aurc=own["aurc"],
        ece=own["ece"],
        brier=own["brier"],
        baseline_auroc=auroc(seen.distance[:, 0]),
        baseline_ece=other["ece"],
        baseline_brier=other["brier"],
        floor=own["floor"],
        baseline_floor=other["floor"],
        ratio_auroc=auroc(distance_ratio(seen)),
    )


def distance_ratio(seen: Seen) -> Numbers:
    """d1/d20 of squared distances, (Q,); 1 between copies, which cannot be distinguished."""
    nearest, farthest = seen.distance[:, 0], seen.profile[:, -1]
    return np.divide(nearest, farthest, out=np.ones_like(nearest), where=farthest > 0)


def _probability(confidence: tuple[float, ...], right: torch.Tensor) -> dict[str, float]:
    sure = torch.tensor(confidence, dtype=torch.float64)
    return {
        "aurc": metrics.aurc(-sure, ~right),
        "ece": metrics.debiased_calibration_error(sure, right),
        "floor": metrics.calibration_floor(sure),
        "brier": float(metrics.brier_score(sure, right).mean()),
    }
