"""How numbers are written on the page."""

from collections.abc import Callable
from math import isfinite

from surefind.metrics.bootstrap import Estimate

MISSING = "\N{EN DASH}"

Show = Callable[[float], str]


def percent(share: float) -> str:
    """In percent, without the sign.

    >>> percent(0.5941)
    '59.4'
    """
    return f"{100 * share:.1f}" if isfinite(share) else MISSING


def decimal(value: float) -> str:
    return f"{value:.3f}" if isfinite(value) else MISSING


def short(value: float) -> str:
    """Three digits, for values of any size.

    >>> short(0.000012345), short(1.5)
    ('1.23e-05', '1.5')
    """
    return f"{value:.3g}" if isfinite(value) else MISSING


def interval(estimate: Estimate, show: Show) -> str:
    """
    >>> interval(Estimate(0.5941, 0.576, 0.612), percent)
    '[57.6, 61.2]'
    """
    if not (isfinite(estimate.low) and isfinite(estimate.high)):
        return ""
    return f"[{show(estimate.low)}, {show(estimate.high)}]"
