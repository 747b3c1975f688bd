"""How a run went: loss, win rate and validation recall over the steps."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from surefind.training.log import StepInfo


def draw_training(log: Sequence[StepInfo], path: Path) -> None:
    """One picture with three curves over the steps, written to `path`."""
    steps = [info for info in log if info.loss == info.loss]
    validated = [info for info in log if info.recall == info.recall]
    figure = Figure(figsize=(11, 3), layout="constrained")
    axes = figure.subplots(1, 3)
    curves = (
        ("loss", [(info.step, info.loss) for info in steps]),
        ("share of triplets in the right order", [(info.step, info.win_rate) for info in steps]),
        ("R@1 on validation classes", [(info.step, info.recall) for info in validated]),
    )
    for axis, (title, points) in zip(axes, curves, strict=True):
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("step")
        axis.grid(alpha=0.3)
        if points:
            marker = "o" if len(points) < 40 else None
            axis.plot(*zip(*points, strict=True), color="#1f77b4", marker=marker, markersize=3)
    if validated:
        best = max(validated, key=lambda info: info.recall)
        axes[2].set_title(f"R@1 on validation classes (kept: {best.recall:.3f})", fontsize=10)
        axes[2].plot(best.step, best.recall, "o", color="#d62728")
    figure.savefig(path, dpi=120)
