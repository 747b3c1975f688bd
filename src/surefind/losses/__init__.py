"""Triplet losses as torch criteria, usable in any training loop."""

from typing import TYPE_CHECKING

from surefind._lazy import lazy_exports

if TYPE_CHECKING:
    from surefind.losses.base import LossInfo, TripletCriterion
    from surefind.losses.baselines import TripletLoss, TripletRegressionLoss
    from surefind.losses.bayesian import BayesianTripletLoss

_HOME = {
    "BayesianTripletLoss": "bayesian",
    "LossInfo": "base",
    "TripletCriterion": "base",
    "TripletLoss": "baselines",
    "TripletRegressionLoss": "baselines",
}

__all__ = ["BayesianTripletLoss", "LossInfo", "TripletCriterion", "TripletLoss", "TripletRegressionLoss"]

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
