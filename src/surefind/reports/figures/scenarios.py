"""What the loss asks of one triplet: where it moves the means, and which variances it shrinks."""

import math
from typing import Any, NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from surefind.embeddings import Gaussians
from surefind.functional import triplet_log_prob
from surefind.reports.figures.palette import INK, OURS, RIGHT, WRONG
from surefind.reports.figures.panels import SMALL, TEXT, caption, lower_key, panels

IMAGES = (("anchor", OURS, "-"), ("positive", RIGHT, "--"), ("negative", WRONG, "-."))
_REACH = 4.7
_MEAN_SCALE, _VAR_SCALE = 1.5, 1.7  # of the arrows: axis units per unit of slope
_TOP, _BOTTOM = 1.75, -0.62
_LANE = 0.17  # between the arrows of the means
METHODS = {"clt": "normal approximation, the paper's", "exact": "exact law"}


class Scenario(NamedTuple):
    """A triplet on a line: anchor, positive, negative."""

    title: str
    means: tuple[float, float, float]
    variances: tuple[float, float, float]


class Descent(NamedTuple):
    """Which way the loss pushes anchor, positive and negative: minus its gradient."""

    mean: Tensor
    var: Tensor


SCENARIOS = (
    Scenario("The right order", (0, -1.5, 2), (0.3, 0.35, 0.25)),
    Scenario("The wrong order", (0, -2, 1.5), (0.3, 0.35, 0.25)),
    Scenario("The right order, large variances", (0, -1.5, 2), (0.3, 2.0, 3.0)),
)


def descent(scenario: Scenario, *, method: str = "clt") -> Descent:
    """Of -log P(tau < 0) in the means and the variances, by autograd."""
    mean = torch.tensor(scenario.means, dtype=torch.float64, requires_grad=True)
    var = torch.tensor(scenario.variances, dtype=torch.float64, requires_grad=True)
    a, p, n = (Gaussians(m.view(1, 1), v.view(1)) for m, v in zip(mean, var, strict=True))
    log_prob = triplet_log_prob(a, p, n, method=method)
    return Descent(*torch.autograd.grad(log_prob.sum(), (mean, var)))


def draw_scenarios() -> Figure:
    """Densities; below them the pull on each mean, above them the pull on each variance."""
    figure, axes = panels(
        len(METHODS),
        len(SCENARIOS),
        height=6.4,
        title="How -log P pulls at three images on a line",
    )
    for axis, scenario in zip(axes[0], SCENARIOS, strict=True):
        caption(axis, scenario.title)
    for row, (method, name) in zip(axes, METHODS.items(), strict=True):
        for axis, scenario in zip(row, SCENARIOS, strict=True):
            pull = descent(scenario, method=method)
            for number in range(3):
                _draw_density(axis, scenario, number)
                _draw_pull_on_var(axis, scenario, number, float(pull.var[number]))
                _draw_pull_on_mean(axis, scenario, number, float(pull.mean[number]))
            axis.axhline(0, color=INK, linewidth=0.8)
            axis.set(xlim=(-_REACH, _REACH), ylim=(_BOTTOM, _TOP), yticks=[], xticks=[])
            axis.spines[["left", "bottom"]].set_visible(False)
        row[0].set_ylabel(name, fontsize=TEXT, color=INK)
    _explain(figure, axes[0, -1])
    return figure


def _explain(figure: Figure, axis: Axes) -> None:
    """Whose is which, what the arrows mean, and how long they are."""
    for name, colour, dash in IMAGES:
        axis.plot([], [], dash, color=colour, label=name)
    lower_key(figure, *axis.get_legend_handles_labels())
    x = -_REACH + 0.3
    text: dict[str, Any] = {"fontsize": SMALL, "va": "center", "color": INK}
    _arrow(axis, (x + 0.3, 1.55), (x + 0.3, 1.55 + 0.1 * _VAR_SCALE), INK)
    axis.text(x + 1, 1.63, "pull of 0.1 on a variance:\nup shrinks it, down enlarges it", **text)
    _arrow(axis, (x, 1.3), (x + 0.5 * _MEAN_SCALE, 1.3), INK)
    axis.text(x + 1, 1.3, "pull of 0.5 on a mean", **text)


def _draw_density(axis: Axes, scenario: Scenario, number: int) -> None:
    _, colour, dash = IMAGES[number]
    x = torch.linspace(-_REACH, _REACH, 400)
    density = _density(x, scenario, number)
    axis.plot(x, density, dash, color=colour, linewidth=1.3)
    axis.fill_between(x, density, color=colour, alpha=0.15, linewidth=0)


def _draw_pull_on_var(axis: Axes, scenario: Scenario, number: int, pull: float) -> None:
    """Up: the variance shrinks. Down: it grows. The arrow stands above the peak."""
    x, colour = scenario.means[number], IMAGES[number][1]
    foot = float(_density(torch.tensor(x), scenario, number)) + 0.08
    ends = sorted((foot, foot + _VAR_SCALE * abs(pull)), reverse=pull > 0)
    _arrow(axis, (x, ends[0]), (x, ends[1]), colour)


def _draw_pull_on_mean(axis: Axes, scenario: Scenario, number: int, pull: float) -> None:
    """From where the mean is to where it goes, each in a lane of its own."""
    x, colour, y = scenario.means[number], IMAGES[number][1], -_LANE * (number + 1)
    axis.plot([x, x], [0, y], ":", color=colour, linewidth=0.8)
    _arrow(axis, (x, y), (x + _MEAN_SCALE * pull, y), colour)


def _arrow(axis: Axes, tail: tuple[float, float], head: tuple[float, float], colour: str) -> None:
    shape = {"arrowstyle": "-|>,head_width=0.22,head_length=0.4", "color": colour}
    axis.annotate(
        "", head, tail, arrowprops={**shape, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
    )


def _density(x: Tensor, scenario: Scenario, number: int) -> Tensor:
    mean, var = scenario.means[number], scenario.variances[number]
    return (-(x - mean).square() / (2 * var)).exp() / math.sqrt(2 * math.pi * var)
