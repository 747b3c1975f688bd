"""Metrics of retrieval, calibration, detection and selective prediction; bootstrap intervals.

Functions take (Q,) tensors, arrays or lists, one value per query, and raise InvalidArgument
otherwise. With `weights`, resample counts of shape (B, Q), they return one value per resample.
"""

from surefind.metrics.calibration import (
    DEFINITIONS,
    ReliabilityBins,
    brier_score,
    calibration_floor,
    debiased_calibration_error,
    expected_calibration_error,
    negative_log_likelihood,
    reliability_bins,
)
from surefind.metrics.detection import aupr, auroc, auroc_within, fpr_at_tpr, spearman
from surefind.metrics.intervals import (
    Estimate,
    PairedTest,
    bootstrap,
    bootstrap_all,
    bootstrap_means,
    paired_test,
    resample_counts,
)
from surefind.metrics.retrieval import (
    average_precision_at_k,
    average_precision_at_r,
    hit_at_k,
    precision_at_k,
    recall_at_k,
    retrieval_report,
)
from surefind.metrics.selective import RiskCoverage, RiskProfile, aurc, risk_coverage, risk_profile

__all__ = [
    "DEFINITIONS", "Estimate", "PairedTest", "ReliabilityBins", "RiskCoverage", "RiskProfile", "aupr", "aurc",
    "auroc", "auroc_within", "average_precision_at_k", "average_precision_at_r", "bootstrap", "bootstrap_all",
    "bootstrap_means", "brier_score", "calibration_floor", "debiased_calibration_error", "expected_calibration_error",
    "fpr_at_tpr", "hit_at_k", "negative_log_likelihood", "paired_test", "precision_at_k", "recall_at_k",
    "reliability_bins", "resample_counts", "retrieval_report", "risk_coverage", "risk_profile", "spearman",
]  # fmt: skip
