"""The loss over the order of the means."""

import math

import pytest
import torch

from surefind.reports.figures.loss import (
    DIM,
    FLOOR,
    MARGIN,
    bayesian_curve,
    draw_loss,
    plain_curve,
)


def naive(tau: float, spread: float, negative: float, *, centred: bool) -> float:
    """-log Phi by the formula of the moments, in plain floats."""
    v, n = spread / DIM, negative / DIM
    d_ap, d_an, d_pn = 1 + tau / 2, 1 - tau / 2, 2.0
    mean = d_ap - d_an + (0 if centred else DIM * (v - n))
    var = 2 * DIM * (v * v + n * n + 2 * v * (v + n)) + 4 * (v * d_ap + n * d_an + v * d_pn)
    return -math.log(0.5 * math.erfc(mean / math.sqrt(2 * var)))


@pytest.mark.parametrize(("spread", "negative"), [(1.0, 1.0), (4.0, 4.0), (1.0, 2.0)])
@pytest.mark.parametrize("centred", [False, True])
def test_the_curve_agrees_with_the_formula(spread: float, negative: float, centred: bool):
    curve = bayesian_curve(spread, negative_spread=negative, centred=centred)
    for at in (0, 150, 220, 300):
        expected = naive(float(curve.tau[at]), spread, negative, centred=centred)
        assert float(curve.loss[at]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("curve", [bayesian_curve(1.0), bayesian_curve(0.1), plain_curve()])
def test_the_slope_is_the_derivative(curve):
    at = 250
    rise = (curve.loss[at + 1] - curve.loss[at - 1]) / (curve.tau[at + 1] - curve.tau[at - 1])
    assert float(curve.slope[at]) == pytest.approx(float(rise), rel=1e-3)


def test_the_plain_loss_is_flat_and_then_straight():
    curve = plain_curve()
    assert curve.loss[0] == 0
    assert float(curve.loss[-1]) == pytest.approx(1.5 + MARGIN)


def test_the_bound_of_the_listing_limits_the_loss_and_ends_its_slope():
    free, bounded = bayesian_curve(0.1), bayesian_curve(0.1, floor=FLOOR)
    probability = (-free.loss).exp()
    torch.testing.assert_close(bounded.loss, -(probability + FLOOR).log())
    assert float(bounded.loss[-1]) == pytest.approx(-math.log(FLOOR))
    assert float(bounded.slope[-1]) < 1e-9 < 10 < float(free.slope[-1])


def test_four_panels_are_drawn():
    value, slope, bounded, uncertain = draw_loss().axes
    assert len(value.get_lines()) == len(slope.get_lines()) == 4
    highest = [float(line.get_ydata().max()) for line in bounded.get_lines()]
    assert highest[0] == pytest.approx(-math.log(FLOOR))
    assert bounded.get_ylim()[1] > highest[0]
    labels = [line.get_label() for line in uncertain.get_lines()]
    assert labels == ["all variances equal", "larger, the paper's loss", "larger, centred"]
