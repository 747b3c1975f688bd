"""Triplet losses as torch criteria, usable in any training loop."""

from surefind.losses.base import LossInfo, TripletCriterion
from surefind.losses.baselines import TripletLoss, TripletRegressionLoss
from surefind.losses.bayesian import BayesianTripletLoss

__all__ = ["BayesianTripletLoss", "LossInfo", "TripletCriterion", "TripletLoss", "TripletRegressionLoss"]
