"""How near the approximations of the law of tau are: the paper's simulation, with all curves."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from surefind.embeddings import Gaussians
from surefind.functional import triplet_log_prob, triplet_moments

DIMENSIONS = (1, 2, 4, 8, 16, 32, 128, 512, 2048)
_QUANTILES = 61
_COLOURS = {"clt": "#d1495b", "saddlepoint": "#2e86ab", "exact": "black"}


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
        x = mean + torch.linspace(-4, 4, _QUANTILES, dtype=torch.float64) * var.sqrt()
        curves = {
            method: torch.cat(
                [triplet_log_prob(a, p, n, margin=-float(at), method=method) for at in x]
            ).exp()
            for method in _COLOURS
        }
        yield Simulation(dim, tau, x, curves)


def draw_approximation(simulations: Sequence[Simulation], path: Path) -> None:
    """Above, the sample histogram with the three curves; below, their error on a log scale."""
    columns = len(simulations)
    figure = Figure(figsize=(2.2 * columns, 4.6), layout="constrained")
    axes = figure.subplots(2, columns, squeeze=False)
    for column, simulation in enumerate(simulations):
        top, bottom = axes[0][column], axes[1][column]
        centre, scale = simulation.x.mean(), (simulation.x[-1] - simulation.x[0]) / 8
        z = (simulation.x - centre) / scale
        samples = ((simulation.samples - centre) / scale).clamp(-4, 4)
        top.hist(samples, bins=80, range=(-4, 4), cumulative=True, density=True, color="#dddddd")
        for method, colour in _COLOURS.items():
            style = {"color": colour, "label": method, "linewidth": 1.4}
            dashes = {"clt": "--", "exact": ":"}.get(method, "-")
            top.plot(z, simulation.curves[method], linestyle=dashes, **style)
            if method != "exact":
                error = (simulation.curves[method] - simulation.curves["exact"]).abs()
                bottom.semilogy(z, error.clamp(min=1e-16), **style)
        top.set_title(f"D = {simulation.dim}", fontsize=10)
        bottom.set_ylim(1e-16, 1)
        bottom.set_xlabel("standard deviations", fontsize=8)
        for axis in (top, bottom):
            axis.tick_params(labelsize=7)
            axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel(r"P($\tau$ < x)")
    axes[1][0].set_ylabel("error")
    axes[0][0].legend(fontsize=7, frameon=False, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
