"""Figures of the theory: loss, gradients, and approximations of the distribution of tau."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from surefind.embeddings import Gaussians
from surefind.functional import triplet_log_prob, triplet_moments
from surefind.losses import BayesianTripletLoss
from surefind.losses.base import Scalars
from surefind.reports.figures import style

DIM = 128  # of the loss curves
MARGIN = 0.2  # of the plain triplet loss
FLOOR = 1e-8  # that the paper's listing adds to the probability
SPREADS = (0.1, 1.0, 4.0)  # D v: how far, squared, a sample lies from its mean
IMAGES = (("anchor", style.OURS, "-"), ("positive", style.RIGHT, "--"), ("negative", style.WRONG, "-."))
SCENARIOS = {  # triplets on a line: means and variances of anchor, positive and negative
    "The right order": ((0, -1.5, 2), (0.3, 0.35, 0.25)),
    "The wrong order": ((0, -2, 1.5), (0.3, 0.35, 0.25)),
    "The right order, large variances": ((0, -1.5, 2), (0.3, 2.0, 3.0)),
}
METHODS = {"clt": "normal approximation, the paper's", "exact": "exact law"}
GRADIENT_DIMENSIONS = (1, 2, 4, 8, 16, 32, 128)
SCALES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
LAW_DIMENSIONS = (1, 2, 4, 8, 16, 32, 128, 512, 2048)
DRAWS = 5  # random triplets of each dimension, as in the paper's supplement

_LINE_REACH = 4.7  # of the triplets on a line
_MEAN_SCALE, _VAR_SCALE = 1.5, 1.7  # of the arrows: axis units per unit of slope
_TOP, _BOTTOM = 1.75, -0.62
_LANE = 0.17  # between the arrows of the means
_DASHES = {"clt": "-", "exact": ":"}
_TRIPLETS = {"clt": 20_000, "exact": 2_000}  # drawn for the figure
_ROUNDING = 1e-9  # of v d(log P)/dv; what is smaller has no sign
_LAW_REACH = 4.0  # of the curves of the law, in standard deviations
_LAW_UNITS = torch.linspace(-_LAW_REACH, _LAW_REACH, 41, dtype=torch.float64)
_LAW_STYLES = {"clt": (style.WRONG, "--"), "saddlepoint": (style.OURS, "-"), "exact": (style.INK, ":")}


class LossCurve(NamedTuple):
    """A loss over tau = d_ap - d_an, and its slope."""

    tau: Tensor
    loss: Tensor
    slope: Tensor


def loss_curve(loss: Callable[[Tensor], Tensor]) -> LossCurve:
    tau = torch.linspace(-1.5, 1.5, 301, dtype=torch.float64).requires_grad_()
    values = loss(tau)
    (slope,) = torch.autograd.grad(values.sum(), tau)
    return LossCurve(tau.detach(), values.detach(), slope)


def bayesian_curve(
    spread: float, *, negative: float | None = None, centred: bool = False, floor: float = 0.0
) -> LossCurve:
    """-log(P(tau < 0) + floor) for triplets with a right angle at the anchor: d_ap + d_an = 2."""
    a = p = torch.tensor(spread / DIM, dtype=torch.float64)
    n = a if negative is None else torch.tensor(negative / DIM, dtype=torch.float64)
    criterion = BayesianTripletLoss(centred=centred, floor=floor)

    def loss(tau: Tensor) -> Tensor:
        scalars = Scalars(1 + tau / 2, 1 - tau / 2, torch.full_like(tau, 2.0), (a,), (p,), (n,))
        return criterion.cost(scalars, DIM)

    return loss_curve(loss)


def draw_loss() -> Figure:
    """Plot the loss, its slope, its bound, and the effect of an uncertain negative."""
    figure, ((value, slope), (bounded, uncertain)) = style.panels(2, 2, height=5.8)
    for spread, colour, dash in zip(SPREADS, style.SERIES, ("-", "--", "-."), strict=False):
        curve, limited = bayesian_curve(spread), bayesian_curve(spread, floor=FLOOR)
        look = {"color": colour, "linestyle": dash}
        name = f"D·var = {spread:g}"
        value.plot(curve.tau, curve.loss, label=name, **look)
        slope.plot(curve.tau, curve.slope, **look)
        bounded.plot(limited.tau, limited.loss, label=name, **look)
    sharpest, name = bayesian_curve(SPREADS[0]), f"D·var = {SPREADS[0]:g}, unbounded"
    bounded.plot(sharpest.tau, sharpest.loss, ":", color=style.SERIES[0], label=name)
    plain = loss_curve(lambda tau: (tau + MARGIN).clamp(min=0))
    for axis in (value, bounded):
        axis.plot(plain.tau, plain.loss, ":", color=style.GREY, label="triplet loss")
    slope.plot(plain.tau, plain.slope, ":", color=style.GREY)
    for name, colour, dash, options in (
        ("all variances equal", style.INK, ":", {}),
        ("larger, the paper's loss", style.WRONG, "-", {"negative": 2.0}),
        ("larger, centred", style.OURS, "--", {"negative": 2.0, "centred": True}),
    ):
        curve = bayesian_curve(1.0, **options)  # type: ignore[arg-type]
        uncertain.plot(curve.tau, curve.loss, dash, color=colour, label=name)
    for axis, title, y, top in (
        (value, "-log P, and the triplet loss", "loss", 6),
        (slope, "Slope", "slope", 8),
        (bounded, "-log(P + 1e-8): bounded, as in the paper's listing", "loss", 25),
        (uncertain, "A negative with twice the variance", "loss", 6),
    ):
        style.caption(axis, title, x="τ of the means, d(a,p) - d(a,n)", y=y)
        axis.set_ylim(-0.02 * top, top)
    for axis in (value, bounded, uncertain):
        style.key(axis, loc="upper left")
    return figure


def descent(means: Sequence[float], variances: Sequence[float], *, method: str = "clt") -> tuple[Tensor, ...]:
    """Return minus the gradient of -log P(tau < 0) by the three means and variances."""
    mean = torch.tensor(means, dtype=torch.float64, requires_grad=True)
    var = torch.tensor(variances, dtype=torch.float64, requires_grad=True)
    a, p, n = (Gaussians(m.view(1, 1), v.view(1)) for m, v in zip(mean, var, strict=True))
    return torch.autograd.grad(triplet_log_prob(a, p, n, method=method).sum(), (mean, var))


def draw_scenarios() -> Figure:
    """Plot densities; below them the pull on each mean, above them the pull on each variance."""
    x = torch.linspace(-_LINE_REACH, _LINE_REACH, 400)
    title = "How -log P pulls at three images on a line"
    figure, axes = style.panels(len(METHODS), len(SCENARIOS), height=6.4, title=title)
    for axis, name in zip(axes[0], SCENARIOS, strict=True):
        style.caption(axis, name)
    for row, (method, name) in zip(axes, METHODS.items(), strict=True):
        for axis, scenario in zip(row, SCENARIOS.values(), strict=True):
            pulls = (pull.tolist() for pull in descent(*scenario, method=method))
            images = zip(IMAGES, *scenario, *pulls, strict=True)
            for lane, ((_, colour, dash), mean, var, on_mean, on_var) in enumerate(images, start=1):
                scale = math.sqrt(2 * math.pi * var)
                density = (-(x - mean).square() / (2 * var)).exp() / scale
                axis.plot(x, density, dash, color=colour, linewidth=1.3)
                axis.fill_between(x, density, color=colour, alpha=0.15, linewidth=0)
                foot, y = 1 / scale + 0.08, -_LANE * lane
                # Above the peak: up shrinks the variance, down enlarges it.
                ends = sorted((foot, foot + _VAR_SCALE * abs(on_var)), reverse=on_var > 0)
                _arrow(axis, (mean, ends[0]), (mean, ends[1]), colour)
                axis.plot([mean, mean], [0, y], ":", color=colour, linewidth=0.8)
                _arrow(axis, (mean, y), (mean + _MEAN_SCALE * on_mean, y), colour)
            axis.axhline(0, color=style.INK, linewidth=0.8)
            axis.set(xlim=(-_LINE_REACH, _LINE_REACH), ylim=(_BOTTOM, _TOP), yticks=[], xticks=[])
            axis.spines[["left", "bottom"]].set_visible(False)
        row[0].set_ylabel(name, fontsize=style.TEXT, color=style.INK)
    axis = axes[0, -1]  # legend and scale of the arrows
    for name, colour, dash in IMAGES:
        axis.plot([], [], dash, color=colour, label=name)
    style.lower_key(figure, *axis.get_legend_handles_labels())
    left = -_LINE_REACH + 0.3
    text: dict[str, Any] = {"fontsize": style.SMALL, "va": "center", "color": style.INK}
    _arrow(axis, (left + 0.3, 1.55), (left + 0.3, 1.55 + 0.1 * _VAR_SCALE), style.INK)
    axis.text(left + 1, 1.63, "pull of 0.1 on a variance:\nup shrinks it, down enlarges it", **text)
    _arrow(axis, (left, 1.3), (left + 0.5 * _MEAN_SCALE, 1.3), style.INK)
    axis.text(left + 1, 1.3, "pull of 0.5 on a mean", **text)
    return figure


def _arrow(axis: Axes, tail: tuple[float, float], head: tuple[float, float], colour: str) -> None:
    shape = {"arrowstyle": "-|>,head_width=0.22,head_length=0.4", "linewidth": 1.6}
    axis.annotate("", head, tail, arrowprops={**shape, "color": colour, "shrinkA": 0, "shrinkB": 0})


class Shrunk(NamedTuple):
    """Shares of well-ordered triplets whose variance the loss shrinks."""

    anchor: float
    positive: float
    negative: float
    all: float


def shrunk_variances(dim: int, *, method: str = "clt", scale: float = 1.0, triplets: int = 2000) -> Shrunk:
    """Sample triplets as the paper's supplement does and count the signs of d(-log P)/dv.

    The paper says of a triplet in the right order that the gradients reduce "the uncertainty of
    each stochastic embedding". That holds for sharp triplets only: E[tau] holds D (v_p - v_n),
    which rewards a large variance of the negative. Means are standard normal, variances `scale`
    times |normal|; triplets whose means are not in the right order are left out.
    """
    generator = torch.Generator().manual_seed(0)
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


def draw_variance_gradients() -> tuple[Figure, dict[str, dict[str, float]]]:
    """Return the figure, and by dimension and method the share whose variances all shrink."""
    figure, ((left, right),) = style.panels(
        1, 2, height=3.9, title="Triplets in the right order: which variances does -log P shrink?"
    )
    dims, look = GRADIENT_DIMENSIONS, {"marker": "o", "markersize": 3}
    table: dict[str, dict[str, float]] = {str(dim): {} for dim in dims}
    for method, dash in _DASHES.items():  # the legend names the paper's
        shrunk = partial(shrunk_variances, method=method, triplets=_TRIPLETS[method])
        found = [shrunk(dim) for dim in dims]
        for dim, shares in zip(dims, found, strict=True):
            table[str(dim)][method] = shares.all
        for number, (name, colour, _) in enumerate(IMAGES):
            label = name if method == "clt" else None
            values = [shares[number] for shares in found]
            left.plot(dims, values, dash, color=colour, label=label, **look)
        for dim, colour in zip((1, 16, 128), style.SERIES, strict=False):
            label = f"D = {dim}" if method == "clt" else None
            values = [shrunk(dim, scale=scale).all for scale in SCALES]
            right.plot(SCALES, values, dash, color=colour, label=label, **look)
    left.set_xscale("log", base=2)
    left.set_xticks(dims, [str(dim) for dim in dims])
    right.set_xscale("log")
    right.set_xticks(SCALES, [f"{scale:g}" for scale in SCALES], minor=False)
    right.minorticks_off()
    scale = "scale of the variances; 1 as in the paper's simulation"
    style.caption(left, "Each of the three", x="D", y="share of triplets")
    style.caption(right, "All three at once", x=scale)
    for axis, where in ((left, "center right"), (right, "upper right")):
        axis.plot([], [], _DASHES["exact"], color=style.GREY, label=METHODS["exact"])
        axis.set_ylim(-0.02, 1.02)
        style.key(axis, loc=where)
    return figure, table


class Simulation(NamedTuple):
    """One random triplet: its samples of tau, and P(tau < x) on a grid by each method."""

    samples: Tensor
    x: Tensor
    curves: dict[str, Tensor]

    def error(self, method: str) -> float:
        """Return the largest difference to the exact probability."""
        return float((self.curves[method] - self.curves["exact"]).abs().max())


def simulate(dim: int, generator: torch.Generator, *, samples: int = 4000) -> Simulation:
    """Draw a triplet: standard normal means, variances |normal|."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    a, p, n = (Gaussians(normal(1, dim), normal(1).abs() + 1e-3) for _ in range(3))
    at_a, at_p, at_n = (g.mean + g.var.sqrt() * normal(samples, dim) for g in (a, p, n))
    tau = (at_a - at_p).square().sum(1) - (at_a - at_n).square().sum(1)
    mean, var = triplet_moments(a, p, n)
    x = mean + _LAW_UNITS * var.sqrt()

    def cdf(method: str) -> Tensor:
        found = [triplet_log_prob(a, p, n, margin=-float(at), method=method) for at in x]
        return torch.cat(found).exp()

    return Simulation(tau, x, {method: cdf(method) for method in _LAW_STYLES})


def draw_approximation() -> tuple[Figure, dict[str, dict[str, float]]]:
    """Return a figure with a row per dimension, and by dimension and method the largest error of P."""
    generator = torch.Generator().manual_seed(0)
    rows, table = len(LAW_DIMENSIONS), {}
    title = "P(τ < x) of random triplets, and how far the approximations are from the exact law"
    figure, axes = style.panels(rows, DRAWS + 1, height=0.9 + 0.95 * rows, title=title)
    for row, dim in zip(axes, LAW_DIMENSIONS, strict=True):
        draws = [simulate(dim, generator) for _ in range(DRAWS)]
        methods = ("clt", "saddlepoint")
        table[str(dim)] = {method: max(draw.error(method) for draw in draws) for method in methods}
        for axis, draw in zip(row[:-1], draws, strict=True):
            _draw_law(axis, row[-1], draw)
        row[0].set_ylabel(f"D = {dim}", fontsize=style.TEXT, color=style.INK)
        row[0].tick_params(labelleft=True)
    for number, axis in enumerate(axes[0, :-1], start=1):
        axis.set_title(f"draw {number}", fontsize=style.TEXT, loc="left", color=style.INK)
    style.caption(axes[0, -1], "error of P")
    for axis in axes[-1]:
        axis.tick_params(labelbottom=True)
    middle, units = axes[-1, DRAWS // 2], "x, in standard deviations of τ from its mean"
    middle.set_xlabel(units, fontsize=style.TEXT, color=style.INK)
    style.lower_key(figure, *axes[0, 0].get_legend_handles_labels())
    return figure, table


def _draw_law(axis: Axes, errors: Axes, simulation: Simulation) -> None:
    samples, x, curves = simulation.samples, simulation.x, simulation.curves
    units = (samples - x.mean()) / ((x[-1] - x[0]) / (2 * _LAW_REACH))
    axis.hist(
        units.clamp(-_LAW_REACH, _LAW_REACH),
        bins=80,
        range=(-_LAW_REACH, _LAW_REACH),
        cumulative=True,
        density=True,
        histtype="stepfilled",
        color=style.PALE,
        label="samples",
    )
    for method, (colour, dashes) in _LAW_STYLES.items():
        look: dict[str, Any] = {"color": colour, "label": METHODS.get(method, method)}
        axis.plot(_LAW_UNITS, curves[method], dashes, linewidth=1.2, **look)
        if method != "exact":
            error = (curves[method] - curves["exact"]).abs().clamp(min=1e-16)
            errors.semilogy(_LAW_UNITS, error, color=colour, linewidth=0.8)
    axis.set(ylim=(0, 1.05), yticks=(0, 0.5, 1), xticks=(-4, 0, 4))
    axis.tick_params(labelleft=False, labelbottom=False)
    axis.grid(visible=False)
    errors.set(ylim=(1e-14, 1), yticks=(1e-12, 1e-8, 1e-4, 1), xticks=(-4, 0, 4))
    errors.yaxis.tick_right()
    errors.spines["left"].set_visible(False)
    errors.tick_params(labelbottom=False)
