"""The Bayesian triplet loss beside the plain one, over how wrong the order of the means is."""

from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from surefind.functional.triplet import GaussianTriplets, log_prob
from surefind.reports.figures.palette import GREY, INK, OURS, SERIES, WRONG
from surefind.reports.figures.panels import caption, key, panels

DIM = 128
MARGIN = 0.2  # of the plain triplet loss
SPREADS = (0.1, 1.0, 4.0)  # D v: how far, squared, a sample lies from its mean
_REACH, _POINTS = 1.5, 301
_DASHES = ("-", "--", "-.")


class Curve(NamedTuple):
    """A loss over tau = d_ap - d_an, and its slope."""

    tau: Tensor
    loss: Tensor
    slope: Tensor


def bayesian_curve(
    spread: float, *, negative_spread: float | None = None, centred: bool = False
) -> Curve:
    """-log P(tau < 0) for triplets with a right angle at the anchor, where d_ap + d_an = 2."""
    tau = _grid()
    a = p = torch.tensor(spread / DIM, dtype=tau.dtype)
    n = a if negative_spread is None else torch.tensor(negative_spread / DIM, dtype=tau.dtype)
    both = torch.full_like(tau, 2.0)
    triplets = GaussianTriplets(1 + tau / 2, 1 - tau / 2, both, a, p, n, DIM)
    return _with_slope(tau, -log_prob(triplets, centred=centred))


def plain_curve() -> Curve:
    """max(0, tau + margin)."""
    tau = _grid()
    return _with_slope(tau, (tau + MARGIN).clamp(min=0))


def draw_loss() -> Figure:
    """Loss, slope, and what a vague negative does with and without centring."""
    figure, axes = panels(1, 3, height=3.1)
    value, slope, vague = axes[0]
    curves = [
        (f"D·var = {spread:g}", SERIES[i], _DASHES[i], bayesian_curve(spread))
        for i, spread in enumerate(SPREADS)
    ]
    curves.append(("triplet loss", GREY, ":", plain_curve()))
    for name, colour, dash, curve in curves:
        value.plot(curve.tau, curve.loss, dash, color=colour, label=name)
        slope.plot(curve.tau, curve.slope, dash, color=colour)
    _draw_vague(vague)
    caption(value, "-log P, and the triplet loss", x="τ of the means, d(a,p) - d(a,n)", y="loss")
    caption(slope, "Slope: how hard it pulls", x="τ of the means")
    caption(vague, "A negative twice as vague", x="τ of the means")
    value.set_ylim(-0.1, 6)
    slope.set_ylim(-0.1, 8)
    vague.set_ylim(-0.1, 6)
    for axis in (value, vague):
        key(axis, loc="upper left")
    return figure


def _draw_vague(axis: Axes) -> None:
    small, large = 1.0, 2.0
    for name, colour, dash, curve in (
        ("all equally sharp", INK, ":", bayesian_curve(small)),
        ("vague, not centred", WRONG, "-", bayesian_curve(small, negative_spread=large)),
        (
            "vague, centred",
            OURS,
            "--",
            bayesian_curve(small, negative_spread=large, centred=True),
        ),
    ):
        axis.plot(curve.tau, curve.loss, dash, color=colour, label=name)


def _grid() -> Tensor:
    return torch.linspace(-_REACH, _REACH, _POINTS, dtype=torch.float64).requires_grad_()


def _with_slope(tau: Tensor, loss: Tensor) -> Curve:
    (slope,) = torch.autograd.grad(loss.sum(), tau)
    return Curve(tau.detach(), loss.detach(), slope)
