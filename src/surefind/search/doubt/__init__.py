"""Learned doubt: how vague a fixed vector is, and how much the judges of that disagree."""

from surefind.search.doubt.fitting import Fitted, fit_variance_heads
from surefind.search.doubt.heads import VarianceHeads

__all__ = ["Fitted", "VarianceHeads", "fit_variance_heads"]
