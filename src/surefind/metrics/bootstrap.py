"""How sure a metric is: intervals by resampling queries."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A metric with its bootstrap interval over queries."""

    value: float
    low: float
    high: float
