"""The Bayesian triplet loss beside the plain one, over how wrong the order of the means is."""

from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from surefind.losses import BayesianTripletLoss
from surefind.losses.criterion import Scalars
from surefind.reports.figures.palette import GREY, INK, OURS, SERIES, WRONG
from surefind.reports.figures.panels import caption, key, panels

DIM = 128
MARGIN = 0.2  # of the plain triplet loss
FLOOR = 1e-8  # that the paper's listing adds to the probability
SPREADS = (0.1, 1.0, 4.0)  # D v: how far, squared, a sample lies from its mean
_REACH, _POINTS = 1.5, 301
_DASHES = ("-", "--", "-.")
_TAU = "τ of the means, d(a,p) - d(a,n)"


class Curve(NamedTuple):
    """A loss over tau = d_ap - d_an, and its slope."""

    tau: Tensor
    loss: Tensor
    slope: Tensor


def bayesian_curve(
    spread: float,
    *,
    negative_spread: float | None = None,
    centred: bool = False,
    floor: float = 0.0,
) -> Curve:
    """-log(P(tau < 0) + floor) for triplets with a right angle at the anchor: d_ap + d_an = 2."""
    tau = _grid()
    a = p = torch.tensor(spread / DIM, dtype=tau.dtype)
    n = a if negative_spread is None else torch.tensor(negative_spread / DIM, dtype=tau.dtype)
    scalars = Scalars(1 + tau / 2, 1 - tau / 2, torch.full_like(tau, 2.0), (a,), (p,), (n,))
    return _with_slope(tau, BayesianTripletLoss(centred=centred, floor=floor).cost(scalars, DIM))


def plain_curve() -> Curve:
    """max(0, tau + margin)."""
    tau = _grid()
    return _with_slope(tau, (tau + MARGIN).clamp(min=0))


def draw_loss() -> Figure:
    """Loss, slope, the bound of the paper's listing, and what an uncertain negative does."""
    figure, ((value, slope), (bounded, uncertain)) = panels(2, 2, height=5.8)
    for i, spread in enumerate(SPREADS):
        curve, look = bayesian_curve(spread), {"color": SERIES[i], "linestyle": _DASHES[i]}
        name = f"D·var = {spread:g}"
        value.plot(curve.tau, curve.loss, label=name, **look)
        slope.plot(curve.tau, curve.slope, **look)
        limited = bayesian_curve(spread, floor=FLOOR)
        bounded.plot(limited.tau, limited.loss, label=name, **look)
    sharpest = bayesian_curve(SPREADS[0])
    bounded.plot(
        sharpest.tau,
        sharpest.loss,
        ":",
        color=SERIES[0],
        label=f"D·var = {SPREADS[0]:g}, unbounded",
    )
    plain = plain_curve()
    for axis in (value, bounded):
        axis.plot(plain.tau, plain.loss, ":", color=GREY, label="triplet loss")
    slope.plot(plain.tau, plain.slope, ":", color=GREY)
    _draw_uncertain(uncertain)
    caption(value, "-log P, and the triplet loss", x=_TAU, y="loss")
    caption(slope, "Slope: how hard it pulls", x=_TAU, y="slope")
    caption(bounded, "-log(P + 1e-8): bounded, as in the paper's listing", x=_TAU, y="loss")
    caption(uncertain, "A negative with twice the variance", x=_TAU, y="loss")
    for axis, top in ((value, 6), (slope, 8), (bounded, 25), (uncertain, 6)):
        axis.set_ylim(-0.02 * top, top)
    for axis in (value, bounded, uncertain):
        key(axis, loc="upper left")
    return figure


def _draw_uncertain(axis: Axes) -> None:
    small, large = 1.0, 2.0
    for name, colour, dash, curve in (
        ("all variances equal", INK, ":", bayesian_curve(small)),
        ("larger, the paper's loss", WRONG, "-", bayesian_curve(small, negative_spread=large)),
        (
            "larger, centred",
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
