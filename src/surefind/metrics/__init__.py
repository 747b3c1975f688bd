"""Metrics of retrieval, calibration, detection and selective prediction; bootstrap intervals.

Functions take (Q,) tensors, arrays or lists, one value per query, and raise InvalidArgument
otherwise. With `weights`, resample counts of shape (B, Q), they return one value per resample.
"""

from typing import TYPE_CHECKING

from surefind._lazy import lazy_exports

if TYPE_CHECKING:
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
    from surefind.metrics.correlation import kendall, spearman
    from surefind.metrics.detection import aupr, auroc, auroc_within, fpr_at_tpr
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

_HOME = {
    "DEFINITIONS": "calibration",
    "Estimate": "intervals",
    "PairedTest": "intervals",
    "ReliabilityBins": "calibration",
    "RiskCoverage": "selective",
    "RiskProfile": "selective",
    "aupr": "detection",
    "aurc": "selective",
    "auroc": "detection",
    "auroc_within": "detection",
    "average_precision_at_k": "retrieval",
    "average_precision_at_r": "retrieval",
    "bootstrap": "intervals",
    "bootstrap_all": "intervals",
    "bootstrap_means": "intervals",
    "brier_score": "calibration",
    "calibration_floor": "calibration",
    "debiased_calibration_error": "calibration",
    "expected_calibration_error": "calibration",
    "fpr_at_tpr": "detection",
    "hit_at_k": "retrieval",
    "kendall": "correlation",
    "negative_log_likelihood": "calibration",
    "paired_test": "intervals",
    "precision_at_k": "retrieval",
    "recall_at_k": "retrieval",
    "reliability_bins": "calibration",
    "resample_counts": "intervals",
    "retrieval_report": "retrieval",
    "risk_coverage": "selective",
    "risk_profile": "selective",
    "spearman": "correlation",
}

__all__ = [
    "DEFINITIONS",
    "Estimate",
    "PairedTest",
    "ReliabilityBins",
    "RiskCoverage",
    "RiskProfile",
    "aupr",
    "aurc",
    "auroc",
    "auroc_within",
    "average_precision_at_k",
    "average_precision_at_r",
    "bootstrap",
    "bootstrap_all",
    "bootstrap_means",
    "brier_score",
    "calibration_floor",
    "debiased_calibration_error",
    "expected_calibration_error",
    "fpr_at_tpr",
    "hit_at_k",
    "kendall",
    "negative_log_likelihood",
    "paired_test",
    "precision_at_k",
    "recall_at_k",
    "reliability_bins",
    "resample_counts",
    "retrieval_report",
    "risk_coverage",
    "risk_profile",
    "spearman",
]

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
