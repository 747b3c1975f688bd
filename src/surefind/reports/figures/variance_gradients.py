"""How often the loss shrinks the variances of a triplet that is in the right order.

The paper says of such a triplet that the gradients reduce "the uncertainty of each stochastic
embedding". That is so for sharp triplets only: E[tau] holds D (v_p - v_n), which rewards a large
variance of the negative.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from surefind.embeddings import Gaussians
from surefind.functional import triplet_log_prob
from surefind.reports.figures.palette import GREY, SERIES
from surefind.reports.figures.panels import caption, key, panels
from surefind.reports.figures.scenarios import IMAGES, METHODS

DIMENSIONS = (1, 2, 4, 8, 16, 32, 128)
SCALES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_BY_SCALE = (1, 16, 128)  # dimensions of the second panel
_DASHES = {"clt": "-", "exact": ":"}
_TRIPLETS = {"clt": 20_000, "exact": 2_000}  # drawn for the figure
_ROUNDING = 1e-9  # of v d(log P)/dv; what is smaller has no sign


class Shrunk(NamedTuple):
    """Shares of well-ordered triplets: whose variance the loss shrinks."""

    anchor: float
    positive: float
    negative: float
    all: float


def shrunk_variances(
    dim: int, *, method: str = "clt", scale: float = 1.0, triplets: int = 2000, seed: int = 0
) -> Shrunk:
    """Draw triplets as the paper's supplement does and count the signs of d(-log P)/dv.

    Means are standard normal, variances `scale` times |normal|; triplets whose means are not in
    the right order are left out. By symmetry the same shares of triplets in the wrong order have
    variances that grow, with positive and negative swapped.
    """
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(3, triplets, dim, generator=generator, dtype=torch.float64)
    var = scale * torch.randn(3, triplets, generator=generator, dtype=torch.float64).abs()
    ordered = (mean[0] - mean[1]).square().sum(1) < (mean[0] - mean[2]).square().sum(1)
    mean, var = mean[:, ordered], (var[:, ordered] + 1e-3 * scale).requires_grad_()
    a, p, n = (Gaussians(*each) for each in zip(mean, var, strict=True))
    # P(tau > 0) has the same gradients with the other sign, and keeps its digits where P is near 1
    (gradient,) = torch.autograd.grad(triplet_log_prob(a, n, p, method=method).sum(), var)
    shrinks = var * gradient > -_ROUNDING
    anchor, positive, negative = shrinks.double().mean(1).tolist()
    return Shrunk(anchor, positive, negative, float(shrinks.all(0).double().mean()))


def draw_variance_gradients(*, seed: int = 0) -> tuple[Figure, dict[str, dict[str, float]]]:
    """The figure, and by dimension and method the share of triplets whose variances all shrink."""
    found = {method: [_drawn(dim, method, seed=seed) for dim in DIMENSIONS] for method in METHODS}
    figure, ((left, right),) = panels(
        1, 2, height=3.9, title="Triplets in the right order: which variances does -log P shrink?"
    )
    _draw_by_dimension(left, found)
    _draw_by_scale(right, seed)
    for axis in (left, right):
        axis.plot([], [], _DASHES["exact"], color=GREY, label=METHODS["exact"])
        axis.set_ylim(-0.02, 1.02)
    key(left, loc="center right")
    key(right, loc="upper right")
    table = {
        str(dim): {method: shares[number].all for method, shares in found.items()}
        for number, dim in enumerate(DIMENSIONS)
    }
    return figure, table


def _drawn(dim: int, method: str, *, seed: int, scale: float = 1.0) -> Shrunk:
    triplets = _TRIPLETS[method]
    return shrunk_variances(dim, method=method, scale=scale, triplets=triplets, seed=seed)


def _draw_by_dimension(axis: Axes, found: dict[str, list[Shrunk]]) -> None:
    for number, (name, colour, _) in enumerate(IMAGES):
        shares = {method: [each[number] for each in found[method]] for method in METHODS}
        _draw_shares(axis, DIMENSIONS, shares, colour=colour, label=name)
    axis.set_xscale("log", base=2)
    axis.set_xticks(DIMENSIONS, [str(dim) for dim in DIMENSIONS])
    caption(axis, "Each of the three", x="D", y="share of triplets")


def _draw_by_scale(axis: Axes, seed: int) -> None:
    for dim, colour in zip(_BY_SCALE, SERIES, strict=False):
        shares = {
            method: [_drawn(dim, method, seed=seed, scale=scale).all for scale in SCALES]
            for method in METHODS
        }
        _draw_shares(axis, SCALES, shares, colour=colour, label=f"D = {dim}")
    axis.set_xscale("log")
    axis.set_xticks(SCALES, [f"{scale:g}" for scale in SCALES], minor=False)
    axis.minorticks_off()
    caption(axis, "All three at once", x="scale of the variances; 1 as in the paper's simulation")


def _draw_shares(
    axis: Axes,
    x: Sequence[float],
    shares: dict[str, list[float]],
    *,
    colour: str,
    label: str,
) -> None:
    """One curve for each method; the legend names the paper's."""
    for method, dash in _DASHES.items():
        name = label if method == "clt" else None
        axis.plot(x, shares[method], dash, color=colour, marker="o", markersize=3, label=name)
