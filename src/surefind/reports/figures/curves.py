"""Figures of a calibration and of a training run."""

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binomtest  # type: ignore[import-untyped]
from torch import Tensor

from surefind.confidence.calibration import Calibration
from surefind.confidence.guarantee import PrecisionGuarantee
from surefind.metrics import (
    calibration_floor,
    debiased_calibration_error,
    reliability_bins,
    risk_coverage,
)
from surefind.reports.figures import style
from surefind.training.run_folder import StepInfo

FUSED, BASELINE = "confidence", "nearest distance"
_LOOKS: dict[str, dict[str, Any]] = {
    FUSED: {"color": style.OURS, "linestyle": "-", "marker": "o", "clip_on": False},
    BASELINE: {"color": style.SERIES[3], "linestyle": "--", "marker": "s", "clip_on": False},
}


def draw_confidence(calibration: Calibration) -> Figure:
    """Plot reliability and risk-coverage of top hits, cross-fitted by class."""
    curve, origin = calibration.curve, calibration.origin
    right = torch.tensor(curve.right)
    said = {
        FUSED: torch.tensor(curve.confidence, dtype=torch.float64),
        BASELINE: torch.tensor(curve.baseline, dtype=torch.float64),
    }
    title = (
        f"{origin.queries:,} queries of {origin.classes:,} classes, {origin.created[:10]}; "
        "cross-fitted by class"
    )
    figure, ((left, other),) = style.panels(1, 2, height=4.4, title=title)
    _draw_reliability(left, said, right)
    _draw_risk(other, said, right, calibration.guarantee)
    return figure


def _draw_reliability(axis: Axes, said: dict[str, Tensor], right: Tensor) -> None:
    """Plot bins of equally many queries with Wilson's 95 % interval."""
    axis.plot([0, 1], [0, 1], ":", color=style.GREY, linewidth=1, label="perfectly calibrated")
    for name, sure in said.items():
        bins = reliability_bins(sure, right.double(), definition="probability")
        error, floor = debiased_calibration_error(sure, right), calibration_floor(sure)
        filled = bins.weight > 0
        x, y, n = bins.confidence[filled], bins.outcome[filled], bins.weight[filled]
        if name == FUSED:
            found = [
                binomtest(round(share * count), round(count)).proportion_ci(method="wilson")
                for share, count in zip(y.tolist(), n.tolist(), strict=True)
            ]
            low, high = [interval.low for interval in found], [interval.high for interval in found]
            axis.vlines(x, low, high, color=style.OURS, linewidth=1, alpha=0.5)
        label = f"{name},\nECE {error:.3f} (perfect: {floor:.3f})"
        axis.plot(x, y, markersize=4, label=label, **_LOOKS[name])
    across, up = "confidence, in bins of equally many", "share of right first hits"
    style.caption(axis, "Reliability", x=across, y=up)
    axis.set(xlim=(0, 1), ylim=(0, 1), box_aspect=1)
    style.key(axis, loc="upper left")


def _draw_risk(
    axis: Axes, said: dict[str, Tensor], right: Tensor, guarantee: PrecisionGuarantee
) -> None:
    """Plot risk over coverage, and where the guarantee ends."""
    top = 1 - guarantee.precision
    for name, sure in said.items():
        curve = risk_coverage(sure, right)
        label = f"{name}, AURC {curve.area:.3f}"
        axis.plot(curve.coverage, curve.risk, label=label, **_LOOKS[name] | {"marker": ""})
        top = max(top, float(curve.risk[curve.coverage >= style.NOISE].max()))
    allowed = f"{guarantee.precision:g} right"
    axis.axhline(
        1 - guarantee.precision, color=style.GREY, linestyle=":", linewidth=1, label=allowed
    )
    axis.set(xlim=(0, 1), ylim=(0, 1.4 * top), box_aspect=1)  # room for the legend
    title = f"Precision {guarantee.precision:g} cannot be guaranteed"
    if guarantee.threshold is not None:
        title = (
            f"Guarantee ({100 * guarantee.probability:.0f} % probability): "
            f"precision ≥ {guarantee.precision:g}\nfrom confidence {guarantee.threshold:.3f} on: "
            f"{100 * guarantee.coverage:.0f} % of queries"
        )
        end, wrong = guarantee.coverage, 1 - guarantee.right / guarantee.selected
        high = 0.6 * axis.get_ylim()[1]  # below the legend
        axis.vlines(end, 0, high, color=style.INK, linewidth=0.9)
        mark: dict[str, Any] = {"marker": "D", "markersize": 5, "linestyle": "", "clip_on": False}
        axis.plot(end, wrong, color=style.INK, label="guarantee ends", **mark)
        axis.annotate(
            f"confidence {guarantee.threshold:.3f}",
            (end, high),
            textcoords="offset points",
            xytext=(0, 2),
            ha="left" if end < 0.5 else "right",
            fontsize=style.SMALL,
            color=style.INK,
        )
    answered = "share of queries answered, the surest first"
    style.caption(axis, title, x=answered, y="share of wrong first hits")
    style.key(axis, loc="upper left")


def training_figure(log: Sequence[StepInfo]) -> Figure:
    """Plot loss, share of ordered triplets and validation recall over the steps."""
    steps = [info for info in log if info.loss == info.loss]
    validated = [info for info in log if info.recall == info.recall]
    figure, axes = style.panels(1, 3, height=2.6)
    curves = (
        ("loss", [(info.step, info.loss) for info in steps]),
        ("triplets in the right order", [(info.step, info.win_rate) for info in steps]),
        ("R@1 on validation classes", [(info.step, info.recall) for info in validated]),
    )
    for axis, (title, points) in zip(axes[0], curves, strict=True):
        style.caption(axis, title, x="step")
        if points:
            marker = "o" if len(points) < 40 else None
            axis.plot(*zip(*points, strict=True), color=style.OURS, marker=marker, markersize=3)
    if validated:
        best = max(validated, key=lambda info: info.recall)
        style.caption(axes[0, 2], f"R@1 in validation (best: {best.recall:.3f})", x="step")
        axes[0, 2].plot(best.step, best.recall, "o", color=style.WRONG)
    return figure
