"""Figures of the loss, its gradients and the distribution of tau."""

import math

import pytest
import torch

from surefind.embeddings import Gaussians
from surefind.functional import triplet_log_prob, triplet_moments
from surefind.reports.figures.theory import DIM, SCENARIOS, bayesian_curve, descent, shrunk_variances, simulate


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
    curve = bayesian_curve(spread, negative=negative, centred=centred)
    for at in (0, 150, 220, 300):
        expected = naive(float(curve.tau[at]), spread, negative, centred=centred)
        assert float(curve.loss[at]) == pytest.approx(expected, rel=1e-9)


def test_the_pull_on_variances_by_the_exact_law_and_by_the_papers_approximation():
    """Exact: the right order shrinks all, the wrong one enlarges all; clt: a negative grows."""
    right, wrong, _ = (descent(*each, method="exact")[1] for each in SCENARIOS.values())
    assert (right < 0).all()
    assert (wrong > 0).all()
    right, wrong, _ = (descent(*each, method="clt")[1] for each in SCENARIOS.values())
    assert right[0] < 0 and right[1] < 0 < right[2]
    assert wrong[0] > 0 and wrong[1] < 0 < wrong[2]


@pytest.mark.parametrize("dim", [1, 16])
def test_the_variance_of_the_negative_shrinks_only_where_the_order_is_clear(dim: int):
    """By the paper's approximation: where -2 E[tau] (D (A + N) + d_an) > D Var[tau]."""
    generator = torch.Generator().manual_seed(1)
    mean = torch.randn(3, 500, dim, generator=generator, dtype=torch.float64)
    var = torch.randn(3, 500, generator=generator, dtype=torch.float64).abs().requires_grad_()
    a, p, n = (Gaussians(*each) for each in zip(mean, var, strict=True))
    (pull,) = torch.autograd.grad(triplet_log_prob(a, p, n).sum(), var)
    with torch.no_grad():
        expectation, variance = triplet_moments(a, p, n)
        d_an = (a.mean - n.mean).square().sum(1)
        clear = -2 * expectation * (dim * (a.var + n.var) + d_an) > dim * variance
    assert torch.equal(pull[2] < 0, clear)
    assert 0 < int(clear.sum()) < 500


def test_the_papers_claim_holds_for_a_third_of_triplets_on_a_line_and_for_few_in_128_dimensions():
    on_a_line = shrunk_variances(1, triplets=20_000)
    assert on_a_line.all == pytest.approx(0.326, abs=0.01)
    assert on_a_line.positive > 0.99
    assert on_a_line.negative == pytest.approx(on_a_line.all, abs=0.01)
    assert shrunk_variances(128, triplets=5_000).all < 0.005
    assert shrunk_variances(1, method="exact", triplets=2000).all == pytest.approx(0.46, abs=0.04)


def test_the_saddlepoint_is_nearer_to_the_exact_law_than_the_normal_one():
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        draw = simulate(64, generator, samples=2)
        assert draw.error("saddlepoint") < 1e-5 < draw.error("clt")
