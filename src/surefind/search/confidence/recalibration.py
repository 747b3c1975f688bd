"""A last, monotone correction of probabilities, fitted to queries they were not fitted to."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression  # type: ignore[import-untyped]

from surefind.choices import check_choice
from surefind.search.confidence.evidence import Numbers
from surefind.search.confidence.logistic import fit_logistic

RECALIBRATIONS = ("beta", "isotonic", "none")
EDGE = 1e-4  # no confidence is surer than this of either answer
_KNOTS = 1000


@dataclass(frozen=True)
class Recalibration:
    """A monotone map of [0, 1], linear in the logits between its knots."""

    before: tuple[float, ...]  # probabilities, ascending
    after: tuple[float, ...]

    def __call__(self, probability: Numbers) -> Numbers:
        if not self.before:
            return np.clip(probability, EDGE, 1 - EDGE)
        mapped = np.interp(_logit(probability), _logit(np.array(self.before)), self.after)
        return np.clip(mapped, EDGE, 1 - EDGE)


def fit_recalibration(
    probability: Numbers, match: NDArray[np.bool_], *, kind: str
) -> Recalibration:
    r"""A map from probabilities to how often they come true.

    beta:      logit p' = a log p - b log(1 - p) + c,  a, b >= 0 (Kull et al. 2017)
    isotonic:  the best monotone steps
    none:      probabilities stay as they are
    """
    check_choice("recalibration", kind, RECALIBRATIONS)
    if kind == "none" or match.all() or not match.any():
        return Recalibration((), ())
    probability = np.clip(probability, EDGE, 1 - EDGE)
    if kind == "isotonic":
        steps = IsotonicRegression(out_of_bounds="clip").fit(probability, match)
        thin = np.unique(np.linspace(0, len(steps.X_thresholds_) - 1, _KNOTS).astype(int))
        return _map(steps.X_thresholds_[thin], steps.y_thresholds_[thin])
    bent = fit_logistic(_both_logs(probability), match, directions=(1, 1), penalty=1e-3)
    knots = np.linspace(_logit(np.array(EDGE)), _logit(np.array(1 - EDGE)), 201)
    before = 1 / (1 + np.exp(-knots))
    return _map(before, bent.probability(_both_logs(before)))


def _both_logs(probability: Numbers) -> Numbers:
    return np.stack([np.log(probability), -np.log1p(-probability)], axis=-1)


def _logit(probability: Numbers) -> Numbers:
    inside = np.clip(probability, EDGE, 1 - EDGE)
    return np.log(inside) - np.log1p(-inside)


def _map(before: Numbers, after: Numbers) -> Recalibration:
    return Recalibration(tuple(before.tolist()), tuple(np.maximum.accumulate(after).tolist()))
