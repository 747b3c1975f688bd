"""Triplet losses as torch criteria, usable in any training loop."""

from surefind.losses.bayesian import BayesianTripletLoss
from surefind.losses.criterion import LossInfo, TripletCriterion
from surefind.losses.regression import TripletRegressionLoss
from surefind.losses.triplet import TripletLoss

__all__ = [
    "BayesianTripletLoss",
    "LossInfo",
    "TripletCriterion",
    "TripletLoss",
    "TripletRegressionLoss",
]
