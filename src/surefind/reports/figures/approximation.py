"""How near the approximations of the law of tau are: the paper's simulation, with all curves."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from surefind.embeddings import Gaussians
from surefind.functional import triplet_log_prob, triplet_moments
from surefind.reports.figures.palette import INK, OURS, PALE, WRONG
from surefind.reports.figures.panels import TEXT, caption, lower_key, panels

DIMENSIONS = (1, 2, 4, 8, 16, 32, 128, 512, 2048)
DRAWS = 5  # random triplets of each dimension, as in the paper's supplement
_POINTS, _REACH = 41, 4.0  # of the curves: how many, and how many standard deviations out
_STYLES = {"clt": (WRONG, "--"), "saddlepoint": (OURS, "-"), "exact": (INK, ":")}
_NAMES = {
    "clt": "normal approximation, the paper's",
    "saddlepoint": "saddlepoint",
    "exact": "exact law",
}


class Simulation(NamedTuple):
    """One random triplet: its samples of tau, and P(tau < x) on a grid by each method."""

    dim: int
    samples: Tensor
    x: Tensor
    curves: dict[str, Tensor]

    def error(self, method: str) -> float:
        """The largest difference to the exact probability."""
        return float((self.curves[method] - self.curves["exact"]).abs().max())


def simulate(
    dimensions: Sequence[int] = DIMENSIONS,
    *,
    draws: int = DRAWS,
    samples: int = 4000,
    seed: int = 0,
) -> Iterator[list[Simulation]]:
    """For each dimension some triplets: standard normal means, variances |normal|."""
    generator = torch.Generator().manual_seed(seed)
    for dim in dimensions:
        yield [_simulate(dim, samples, generator) for _ in range(draws)]


def _simulate(dim: int, samples: int, generator: torch.Generator) -> Simulation:
    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    a, p, n = (Gaussians(normal(1, dim), normal(1).abs() + 1e-3) for _ in range(3))
    at_a, at_p, at_n = (g.mean + g.var.sqrt() * normal(samples, dim) for g in (a, p, n))
    tau = (at_a - at_p).square().sum(1) - (at_a - at_n).square().sum(1)
    mean, var = triplet_moments(a, p, n)
    x = mean + torch.linspace(-_REACH, _REACH, _POINTS, dtype=torch.float64) * var.sqrt()
    curves = {
        method: torch.cat(
            [triplet_log_prob(a, p, n, margin=-float(at), method=method) for at in x]
        ).exp()
        for method in _STYLES
    }
    return Simulation(dim, tau, x, curves)


def draw_approximation(*, seed: int = 0) -> tuple[Figure, dict[str, dict[str, float]]]:
    """The figure, and by dimension and method the largest error of P over all draws."""
    simulations = list(simulate(DIMENSIONS, seed=seed))
    table = {
        str(draws[0].dim): {
            method: max(draw.error(method) for draw in draws) for method in ("clt", "saddlepoint")
        }
        for draws in simulations
    }
    return approximation_figure(simulations), table


def approximation_figure(simulations: Sequence[Sequence[Simulation]]) -> Figure:
    """A row per dimension: samples with the three curves for each draw, and all their errors."""
    rows, columns = len(simulations), max(len(draws) for draws in simulations)
    figure, axes = panels(
        rows,
        columns + 1,
        height=0.9 + 0.95 * rows,
        title="P(τ < x) of random triplets, and how far the approximations are from the exact law",
    )
    for row, draws in zip(axes, simulations, strict=True):
        for axis, draw in zip(row, draws, strict=False):
            _draw_curves(axis, draw)
            _draw_errors(row[-1], draw)
    for number, axis in enumerate(axes[0, :-1], start=1):
        caption(axis, f"draw {number}")
    caption(axes[0, -1], "error of P")
    for axis, draws in zip(axes[:, 0], simulations, strict=True):
        axis.set_ylabel(f"D = {draws[0].dim}", fontsize=TEXT, color=INK)
        axis.tick_params(labelleft=True)
    for axis in axes[-1]:
        axis.tick_params(labelbottom=True)
    middle = axes[-1, columns // 2]
    middle.set_xlabel("x, in standard deviations of τ from its mean", fontsize=TEXT, color=INK)
    lower_key(figure, *axes[0, 0].get_legend_handles_labels())
    return figure


def _draw_curves(axis: Axes, simulation: Simulation) -> None:
    units = _standard_units(simulation)
    centre, scale = simulation.x.mean(), (simulation.x[-1] - simulation.x[0]) / (2 * _REACH)
    samples = ((simulation.samples - centre) / scale).clamp(-_REACH, _REACH)
    axis.hist(
        samples,
        bins=80,
        range=(-_REACH, _REACH),
        cumulative=True,
        density=True,
        histtype="stepfilled",
        color=PALE,
        label="samples",
    )
    for method, (colour, dashes) in _STYLES.items():
        axis.plot(
            units,
            simulation.curves[method],
            dashes,
            color=colour,
            linewidth=1.2,
            label=_NAMES[method],
        )
    axis.set(ylim=(0, 1.05), yticks=(0, 0.5, 1), xticks=(-4, 0, 4))
    axis.tick_params(labelleft=False, labelbottom=False)
    axis.grid(visible=False)


def _draw_errors(axis: Axes, simulation: Simulation) -> None:
    for method in ("clt", "saddlepoint"):
        error = (simulation.curves[method] - simulation.curves["exact"]).abs().clamp(min=1e-16)
        axis.semilogy(_standard_units(simulation), error, color=_STYLES[method][0], linewidth=0.8)
    axis.set(ylim=(1e-14, 1), yticks=(1e-12, 1e-8, 1e-4, 1), xticks=(-4, 0, 4))
    axis.yaxis.tick_right()
    axis.spines["left"].set_visible(False)
    axis.tick_params(labelbottom=False)


def _standard_units(simulation: Simulation) -> Tensor:
    return torch.linspace(-_REACH, _REACH, len(simulation.x), dtype=simulation.x.dtype)
