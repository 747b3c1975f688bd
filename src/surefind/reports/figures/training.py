"""How a run went: loss, win rate and validation recall over the steps."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from surefind.reports.figures.palette import OURS, WRONG
from surefind.reports.figures.panels import caption, panels
from surefind.reports.figures.saving import save
from surefind.training.log import StepInfo


def draw_training(log: Sequence[StepInfo], path: Path) -> None:
    """Write `training_figure` to a file."""
    save(training_figure(log), path)


def training_figure(log: Sequence[StepInfo]) -> Figure:
    """Three curves over the steps; the highest recall is marked in the last."""
    steps = [info for info in log if info.loss == info.loss]
    validated = [info for info in log if info.recall == info.recall]
    figure, axes = panels(1, 3, height=2.6)
    curves = (
        ("loss", [(info.step, info.loss) for info in steps]),
        ("triplets in the right order", [(info.step, info.win_rate) for info in steps]),
        ("R@1 on validation classes", [(info.step, info.recall) for info in validated]),
    )
    for axis, (title, points) in zip(axes[0], curves, strict=True):
        caption(axis, title, x="step")
        if points:
            marker = "o" if len(points) < 40 else None
            axis.plot(*zip(*points, strict=True), color=OURS, marker=marker, markersize=3)
    if validated:
        best = max(validated, key=lambda info: info.recall)
        caption(axes[0, 2], f"R@1 in validation (best: {best.recall:.3f})", x="step")
        axes[0, 2].plot(best.step, best.recall, "o", color=WRONG)
    return figure
