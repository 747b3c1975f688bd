"""Divergences to the prior."""

import pytest
import torch
from sampling import Draw

import surefind as sf
from surefind.functional import kl_to_prior


def test_the_prior_is_at_no_distance_from_itself():
    for dim in (1, 7, 512):
        batch = sf.Gaussians(torch.zeros(1, dim), torch.full((1,), 1 / dim))
        assert kl_to_prior(batch).item() == pytest.approx(0, abs=1e-5)


def test_gaussians_agree_with_sampling(draw: Draw):
    batch = draw.gaussians(1, 3, var=0.3)
    points = draw.samples(batch, 200_000)[:, 0]
    posterior = torch.distributions.Normal(batch.mean, batch.var.sqrt()[:, None])
    prior = torch.distributions.Normal(0.0, 3**-0.5)
    sampled = (posterior.log_prob(points) - prior.log_prob(points)).sum(1).mean().item()
    assert kl_to_prior(batch).item() == pytest.approx(sampled, rel=0.01)


def test_on_the_sphere_it_agrees_with_sampling(draw: Draw):
    """log density = log C(kappa) + kappa mu'x; against uniform, at D = 3 where C is elementary."""
    batch = draw.spheres(1, 3, kappa=4.0)
    kappa = batch.kappa
    points = draw.samples(batch, 200_000)[:, 0]
    log_density_ratio = (kappa / torch.sinh(kappa)).log() + kappa * (points @ batch.mean[0])
    assert kl_to_prior(batch).item() == pytest.approx(log_density_ratio.mean().item(), rel=0.01)


def test_divergence_is_never_negative_and_grows_with_kappa():
    kappa = torch.logspace(-8, 10, 200)
    for dim in (2, 128, 2047):
        mean = torch.eye(dim)[:1].expand(200, dim)
        divergence = kl_to_prior(sf.VonMisesFisher(mean, kappa))
        assert (divergence >= 0).all()
        assert (divergence.diff() > 0).all()


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_gradcheck(draw: Draw, family: str):
    batch = getattr(draw, family)(3, 4)
    mean, spread = batch.mean, batch.spread.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda s: kl_to_prior(type(batch)(mean, s)), (spread,))


def test_something_else_is_refused():
    with pytest.raises(sf.InvalidArgument, match="batch: expected Gaussians or VonMisesFisher"):
        kl_to_prior(torch.zeros(3, 4))  # type: ignore[arg-type]


def test_gaussians_agree_with_the_divergence_of_torch():
    torch.manual_seed(0)
    mean, var = torch.randn(5, 7).double(), torch.rand(5).double() + 0.1
    ours = torch.distributions.Normal(mean, var.sqrt()[:, None].expand(5, 7))
    prior = torch.distributions.Normal(torch.zeros(5, 7).double(), 0.3**0.5)
    wanted = torch.distributions.kl_divergence(ours, prior).sum(1)
    torch.testing.assert_close(kl_to_prior(sf.Gaussians(mean, var), prior_var=0.3), wanted)
    loss = sf.losses.BayesianTripletLoss(prior_var=0.3)
    torch.testing.assert_close(loss.kl(sf.Gaussians(mean, var)), wanted)
