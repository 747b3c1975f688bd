"""Calibrated confidence, verdicts and guarantees for the hits of a search.

Modules, in reading order:

- `class_table`, `label_model`: classes of the index; probability of each label for a query
- `evidence`: without labels, the neighbourhood of a query and its hits, and evidence columns from it
- `neighbours`: copies of a query; distances from every indexed image to its neighbours
- `match_model`: probability that a hit is a match, from evidence, cross-fitted by class
- `guarantee`: threshold with a guaranteed precision (learn then test, design effect)
- `conformal`: prediction set, novelty p-value, verdict
- `calibration`: all of these fitted, their quality, how they judge a query, documents on disk
- `variance_heads`: learned variance of fixed vectors
- `labelled_queries`, `label_calibration`, `calibrate`: labelled queries are searched, and a calibration is fitted
- `drift`, `explain`: change of queries, sentences for people
"""

from typing import TYPE_CHECKING

from surefind._lazy import lazy_exports

if TYPE_CHECKING:
    from surefind.confidence.calibrate import CalibrationTargets
    from surefind.confidence.calibration import Calibration, Quality
    from surefind.confidence.conformal import PredictionSetRule
    from surefind.confidence.drift import Drift
    from surefind.confidence.guarantee import PrecisionGuarantee

_HOME = {
    "Calibration": "calibration",
    "CalibrationTargets": "calibrate",
    "Drift": "drift",
    "PrecisionGuarantee": "guarantee",
    "PredictionSetRule": "conformal",
    "Quality": "calibration",
}

__all__ = ["Calibration", "CalibrationTargets", "Drift", "PrecisionGuarantee", "PredictionSetRule", "Quality"]

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
