"""How near the approximations of the law of tau are: the paper's simulation, with all curves."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from surefind.embeddings import Gaussians
from surefind.functional import triplet_log_prob, triplet_moments
from surefind.reports.figures.palette import INK, OURS, PALE, WRONG
from surefind.reports.figures.saving import save

DIMENSIONS = (1, 2, 4, 8, 16, 32, 128, 512, 2048)
_POINTS, _REACH = 61, 4.0  # of the curves: how many, and how many standard deviations out
_COLUMNS = 5
_STYLES = {"clt": (WRONG, "--"), "saddlepoint": (OURS, "-"), "exact": (INK, ":")}


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
    dimensions: Sequence[int] = DIMENSIONS, *, samples: int = 20_000, seed: int = 0
) -> Iterator[Simulation]:
    """Means from a standard Gaussian, variances |normal|, as in the paper's supplement."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    for dim in dimensions:
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
        yield Simulation(dim, tau, x, curves)


def draw_approximation(simulations: Sequence[Simulation], path: Path) -> None:
    """Write `approximation_figure` to a file."""
    save(approximation_figure(simulations), path)


def approximation_figure(simulations: Sequence[Simulation]) -> Figure:
    """For each dimension the sample histogram with the three curves, and below it their error."""
    columns = min(len(simulations), _COLUMNS)
    blocks = -(-len(simulations) // columns)
    figure = Figure(figsize=(2.3 * columns, 4.2 * blocks), layout="constrained")
    axes = figure.subplots(2 * blocks, columns, squeeze=False)
    for spare in axes.flat:
        spare.set_axis_off()
    for number, simulation in enumerate(simulations):
        block, column = divmod(number, columns)
        curves, errors = axes[2 * block][column], axes[2 * block + 1][column]
        _draw_curves(curves, simulation)
        _draw_errors(errors, simulation)
        for axis in (curves, errors):
            axis.set_axis_on()
            axis.tick_params(labelsize=7)
            axis.spines[["top", "right"]].set_visible(False)
        if column == 0:
            curves.set_ylabel("P(τ < x)")
            errors.set_ylabel("error of P")
    home = axes[-2][-1] if len(simulations) < blocks * columns else axes[0][0]
    home.legend(*axes[0][0].get_legend_handles_labels(), frameon=False, loc="upper left")
    return figure


def _draw_curves(axis: Axes, simulation: Simulation) -> None:
    centre, scale = simulation.x.mean(), (simulation.x[-1] - simulation.x[0]) / (2 * _REACH)
    samples = ((simulation.samples - centre) / scale).clamp(-_REACH, _REACH)
    axis.hist(
        samples,
        bins=80,
        range=(-_REACH, _REACH),
        cumulative=True,
        density=True,
        color=PALE,
        label="samples",
    )
    for method, (colour, dashes) in _STYLES.items():
        axis.plot(
            _standard_units(simulation),
            simulation.curves[method],
            dashes,
            color=colour,
            label=method,
        )
    axis.set_title(f"D = {simulation.dim}", fontsize=10)


def _draw_errors(axis: Axes, simulation: Simulation) -> None:
    for method in ("clt", "saddlepoint"):
        error = (simulation.curves[method] - simulation.curves["exact"]).abs().clamp(min=1e-16)
        axis.semilogy(_standard_units(simulation), error, color=_STYLES[method][0])
    axis.set_ylim(1e-14, 1)
    axis.set_xlabel("standard deviations", fontsize=8)


def _standard_units(simulation: Simulation) -> Tensor:
    return torch.linspace(-_REACH, _REACH, len(simulation.x), dtype=simulation.x.dtype)
