"""The von Mises-Fisher distribution against fifty digits, sampling and closed cases."""

import math

import mpmath as mp
import pytest
import torch
from sampling import Draw

import surefind as sf
from surefind.functional.vmf import kl_to_uniform, sphere_terms

DIMS = (2, 3, 4, 8, 33, 128, 511, 2048)
KAPPAS = (1e-3, 1e-2, 0.1, 1, 3, 10, 30, 100, 300, 1e3, 1e4, 1e5, 1e6)


def reference(dim: int, kappa: float) -> list[float]:
    """A, A', A'' and the divergence."""
    with mp.workdps(80):
        k, order = mp.mpf(kappa), mp.mpf(dim) / 2 - 1
        ratio = mp.besseli(order + 1, k) / mp.besseli(order, k)
        first = 1 - ratio**2 - (dim - 1) * ratio / k
        second = -2 * ratio * first - (dim - 1) * (first / k - ratio / k**2)
        log_series = mp.loggamma(order + 1) + order * mp.log(2 / k) + mp.log(mp.besseli(order, k))
        return [float(x) for x in (ratio, first, second, k * ratio - log_series)]


@pytest.mark.parametrize("dim", DIMS)
def test_terms_divergence_and_its_slope_agree_with_fifty_digits(dim: int):
    kappa = torch.tensor(KAPPAS, dtype=torch.float64).requires_grad_()
    terms, divergence = sphere_terms(kappa, dim), kl_to_uniform(kappa, dim)
    divergence.sum().backward()
    ours = torch.stack([terms.length, terms.along, terms.bend, divergence], dim=1).detach()
    wanted = torch.tensor([reference(dim, k) for k in KAPPAS], dtype=torch.float64)
    torch.testing.assert_close(ours, wanted, rtol=1e-11, atol=0)
    torch.testing.assert_close(kappa.grad, kappa.detach() * wanted[:, 1], rtol=1e-11, atol=0)


def test_mean_and_covariance_agree_with_sampling(draw: Draw):
    for dim, kappa in ((2, 3.0), (3, 5.0), (8, 20.0), (64, 30.0)):
        batch = sf.VonMisesFisher(torch.eye(dim, dtype=torch.float64)[:1], torch.tensor([kappa], dtype=torch.float64))
        points = draw.samples(batch, 100_000)[:, 0]
        terms = sphere_terms(batch.kappa, dim)
        along, across = points[:, 0], points[:, 1]
        assert along.mean().item() == pytest.approx(terms.length.item(), abs=3e-3)
        assert along.var().item() == pytest.approx(terms.along.item(), rel=0.03)
        assert across.var().item() == pytest.approx(terms.across.item(), rel=0.03)
        third = (along - along.mean()).pow(3).mean().item()
        assert third == pytest.approx(terms.bend.item(), abs=0.06 * along.std().item() ** 3)


def test_traces_add_up():
    """The variances in all directions and the squared mean make the length of a unit vector."""
    kappa = torch.logspace(-3, 6, 50, dtype=torch.float64)
    for dim in DIMS:
        terms = sphere_terms(kappa, dim)
        total = terms.length**2 + terms.along + (dim - 1) * terms.across
        torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-13)


@pytest.mark.parametrize("dim", [2, 3, 17, 128, 2047])
def test_gradcheck(dim: int):
    kappa = torch.tensor([0.3, 5.0, 80.0, 2e3], dtype=torch.float64, requires_grad=True)
    terms = lambda k: tuple(sphere_terms(k, dim))
    assert torch.autograd.gradcheck(terms, (kappa,), eps=1e-5, atol=1e-7, rtol=1e-5)
    assert torch.autograd.gradcheck(lambda k: kl_to_uniform(k, dim), (kappa,))


def test_single_precision_is_that_of_the_result():
    kappa = torch.tensor(KAPPAS[:-1])
    for dim in DIMS:
        single, double = sphere_terms(kappa, dim), sphere_terms(kappa.double(), dim)
        for ours, wanted in zip(single[:3], double[:3], strict=True):
            torch.testing.assert_close(ours.double(), wanted, rtol=1e-6, atol=0)
    assert math.isfinite(kl_to_uniform(torch.tensor([1e12]), 2).item())
