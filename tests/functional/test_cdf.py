"""Distribution of tau: exact against sixty digits, the saddlepoint against exact."""

import json
import math
from pathlib import Path

import pytest
import torch
from sampling import Draw, tau

import surefind as sf
from surefind.functional import triplet_log_prob
from surefind.functional.cdf import log_cdf, log_cdf_exact
from surefind.functional.quadratic_form import QuadraticForm
from surefind.functional.saddlepoint import _RULE, log_cdf_saddlepoint
from surefind.functional.triplet import GaussianTriplets, log_prob, moments, triplets_of
from surefind.functional.triplet import _form as form_of

REFERENCE = json.loads((Path(__file__).parent / "exact_reference.json").read_text())
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def scalars(distances: list[float], variances: list[float], dim: int) -> GaussianTriplets:
    return GaussianTriplets(*(torch.tensor([x], dtype=torch.float64) for x in distances + variances), dim)


@pytest.mark.parametrize(("dim", "distances", "variances", "x", "value"), REFERENCE)
def test_exact_agrees_with_sixty_digits(dim, distances, variances, x: float, value: str):
    ours = log_prob(scalars(distances, variances, dim), margin=-x, method="exact").item()
    assert ours == pytest.approx(float(value), rel=1e-10, abs=1e-13 if dim > 1 else 1e-8)


@pytest.mark.parametrize(
    ("dim", "error", "log_error"),
    [(1, 4e-2, 0.2), (4, 2e-3, 0.02), (16, 6e-5, 2e-3), (128, 3e-7, 2e-5), (512, 1e-8, 1e-6),
     (2048, 5e-10, 1e-7)],
)  # fmt: skip
def test_the_saddlepoint_is_near_exact_in_the_papers_simulation(dim, error, log_error, draw: Draw):
    form = _form(*(draw.gaussians(40, dim) for _ in range(3)))
    z = torch.special.ndtri(torch.tensor(QUANTILES, dtype=torch.float64))
    gap = z[:, None] * form.var.sqrt()
    clt, ours, exact = (log_cdf(form, gap, method) for method in ("clt", "saddlepoint", "exact"))
    worst, worst_clt = ((log.exp() - exact.exp()).abs().max().item() for log in (ours, clt))
    assert worst <= error
    assert (ours - exact).abs().max().item() <= log_error
    assert worst < worst_clt / 3


@pytest.mark.parametrize("dim", [1, 16, 128, 2048])
@pytest.mark.parametrize("var", [1.0, 1e-3, 1e-6])
def test_single_precision_costs_the_saddlepoint_a_few_millionths(dim: int, var: float, draw: Draw):
    single = [draw.gaussians(400, dim, var=var).to(torch.float32) for _ in range(3)]
    z = torch.linspace(-6, 6, 400)
    form = _form(*single)
    gap = z * form.var.sqrt()
    wide = QuadraticForm(*(part.double() for part in form[:4]), dim)
    ours, wanted = log_cdf_saddlepoint(form, gap), log_cdf_saddlepoint(wide, gap.double())
    torch.testing.assert_close(ours.double().exp(), wanted.exp(), rtol=0, atol=5e-6)
    torch.testing.assert_close(ours.double(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", ["clt", "saddlepoint", "exact"])
def test_all_methods_agree_with_sampling(method: str, draw: Draw):
    for dim in (2, 8, 64):
        triplets = [draw.gaussians(1, dim) for _ in range(3)]
        sampled = tau(*(draw.samples(t, 100_000) for t in triplets))
        mean, var = sf.functional.triplet_moments(*triplets)
        for z in (-1.0, 0.0, 1.5):
            x = (mean + z * var.sqrt()).item()
            ours = triplet_log_prob(*triplets, margin=-x, method=method).exp().item()
            allowed = {"clt": 0.12, "saddlepoint": 0.012, "exact": 0.006}[method]
            assert ours == pytest.approx((sampled < x).double().mean().item(), abs=allowed)


@pytest.mark.parametrize("dim", [1, 2, 8, 128, 2048])
def test_the_saddlepoint_is_smooth_through_the_mean(dim: int, draw: Draw):
    """Third differences shrink eightfold with half the step; a jump or a kink would stay."""
    form = _form(*(draw.gaussians(8, dim) for _ in range(3)))
    largest = []
    for step in (0.02, 0.01, 0.005):
        z = torch.arange(-0.5, 0.5, step, dtype=torch.float64)[:, None] + 1e-9
        values = log_cdf_saddlepoint(form, z * form.var.sqrt())
        largest.append(values.diff(dim=0).diff(dim=0).diff(dim=0).abs().max().item())
    assert largest[1] < largest[0] / 6
    assert largest[2] < largest[1] / 6
    assert log_cdf_saddlepoint(form, torch.zeros(8, dtype=torch.float64)).isfinite().all()


@pytest.mark.parametrize("dim", [1, 2, 16, 128, 2048])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", ["clt", "saddlepoint"])
def test_tails_are_finite_and_monotone_down_to_minus_ten_thousand(method, dtype, dim, draw: Draw):
    form = _form(*(draw.gaussians(1, dim).to(dtype) for _ in range(3)))
    far = torch.tensor([1e3, 2e3, 4e3, 8e3, 2e4], dtype=dtype)
    margins = form.var.sqrt() * torch.cat([torch.linspace(-300, 300, 241, dtype=dtype), far])
    values = log_cdf(form, -margins - form.mean, method)
    assert values.isfinite().all()
    assert (values.diff() <= 1e-6 * values[1:].abs()).all()
    assert (values <= 0).all()
    if method == "saddlepoint":
        assert values.min() < -1e4 or dim == 1


def test_far_tails_agree_with_exact(draw: Draw):
    triplets = [draw.gaussians(1, 32) for _ in range(3)]
    std = sf.functional.triplet_moments(*triplets).var.sqrt().item()
    for deviations in (30, 300, 3000):
        one, other = (
            triplet_log_prob(*triplets, margin=deviations * std, method=method).item()
            for method in ("saddlepoint", "exact")
        )
        assert one == pytest.approx(other, abs=1e-3)
    assert other < -1e3


@pytest.mark.parametrize("function", [log_cdf_saddlepoint, log_cdf_exact])
@pytest.mark.parametrize("dim", [2, 16, 512])
def test_gradcheck_by_the_law(function, dim: int, draw: Draw):
    form = _form(*(draw.gaussians(6, dim) for _ in range(3)))
    z = torch.tensor([-20.0, -2.0, -0.05, 0.0, 0.1, 3.0], dtype=torch.float64)
    leaves = [x.clone().requires_grad_() for x in (*form[:4], z * form.var.sqrt())]
    check = lambda *x: function(QuadraticForm(*x[:4], dim), x[4])
    assert torch.autograd.gradcheck(check, leaves, eps=1e-5, atol=1e-6, rtol=1e-4)


def _form(anchor: sf.Gaussians, positive: sf.Gaussians, negative: sf.Gaussians) -> QuadraticForm:
    return form_of(triplets_of(anchor, positive, negative))


def test_the_law_has_the_moments_of_tau(draw: Draw):
    triplets = [draw.gaussians(20, 9) for _ in range(3)]
    form = _form(*triplets)
    mean, var = moments(triplets_of(*triplets))
    torch.testing.assert_close(form.mean, mean)
    torch.testing.assert_close(form.var, var)


def test_the_nodes_near_zero_are_those_of_gauss():
    for degree in range(12):
        integral = math.fsum(weight * node**degree for node, weight in _RULE)
        assert integral == pytest.approx(1 / (degree + 5), rel=1e-13)
