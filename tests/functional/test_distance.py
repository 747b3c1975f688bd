"""Distances, match probabilities and the divergence from the prior."""

from typing import Any

import pytest
import torch
from sampling import Draw
from scipy.stats import ncx2

import surefind as sf
from surefind.functional import (
    candidate_distances,
    distance_variance,
    expected_distance,
    hit_distances,
    hit_match_probability,
    kl_to_prior,
    match_probability,
    paired_distance_variance,
    squared_distances,
)
from surefind.functional.distance import triplet_distances


def sampled_distances(draw: Draw, query: sf.Embeddings, gallery: sf.Embeddings) -> torch.Tensor:
    q, x = (draw.samples(batch, 50_000) for batch in (query, gallery))
    return (q[:, :, None] - x[:, None]).square().sum(-1)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
@pytest.mark.parametrize("dim", [3, 16])
def test_mean_and_variance_agree_with_sampling(family: str, dim: int, draw: Draw):
    query, gallery = getattr(draw, family)(2, dim), getattr(draw, family)(3, dim)
    sampled = sampled_distances(draw, query, gallery)
    torch.testing.assert_close(expected_distance(query, gallery), sampled.mean(0), rtol=0.02, atol=0.01)
    torch.testing.assert_close(distance_variance(query, gallery), sampled.var(0), rtol=0.05, atol=0)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_variances_row_by_row_are_the_diagonal_of_all_pairs(family: str, draw: Draw):
    one, other = getattr(draw, family)(5, 4), getattr(draw, family)(5, 4)
    torch.testing.assert_close(paired_distance_variance(one, other), distance_variance(one, other).diagonal())
    with pytest.raises(sf.InvalidArgument, match="other: expected 5 rows"):
        paired_distance_variance(one, other[:3])


@pytest.mark.parametrize("dim", [2, 16, 256])
def test_match_probability_of_gaussians_is_a_noncentral_chi_square(dim: int, draw: Draw):
    query, gallery = draw.gaussians(3, dim), draw.gaussians(4, dim)
    var = query.var[:, None] + gallery.var
    distance = squared_distances(query.mean, gallery.mean)
    for radius in (0.7 * dim**0.5, 1.6 * dim**0.5, 2.5 * dim**0.5):
        wanted = torch.tensor(ncx2.cdf(radius**2 / var, dim, distance / var))
        exact = match_probability(query, gallery, radius, method="exact")
        torch.testing.assert_close(exact, wanted, rtol=0, atol=1e-9)
        ours = match_probability(query, gallery, radius)
        torch.testing.assert_close(ours, wanted, rtol=0, atol=0.02 / dim)


@pytest.mark.parametrize(("dim", "error"), [(3, 0.02), (16, 0.005), (64, 0.005)])
def test_match_probability_on_the_sphere_agrees_with_sampling(dim: int, error: float, draw: Draw):
    query, gallery = draw.spheres(1, dim, kappa=5 * dim), draw.spheres(2, dim, kappa=5 * dim)
    sampled = sampled_distances(draw, query, gallery)
    for share in (0.1, 0.5, 0.9):
        radius = sampled[:, 0, 0].quantile(share).sqrt().item()
        ours = match_probability(query, gallery, radius)
        wanted = (sampled < radius**2).double().mean(0)
        torch.testing.assert_close(ours, wanted, rtol=0, atol=error + 0.005)


def test_probability_grows_with_the_radius_and_stays_in_bounds(draw: Draw):
    for family in ("gaussians", "spheres"):
        query, gallery = getattr(draw, family)(3, 8), getattr(draw, family)(4, 8)
        radii = torch.linspace(0.05, 8, 60).tolist()
        values = torch.stack([match_probability(query, gallery, radius) for radius in radii])
        assert ((values >= 0) & (values <= 1)).all()
        assert (values.diff(dim=0) >= -1e-9).all()


def test_distances_of_close_points_keep_their_digits_in_single_precision():
    generator = torch.Generator().manual_seed(0)
    base = 10 + torch.randn(1, 64, generator=generator)
    x = base + 1e-3 * torch.randn(20, 64, generator=generator)
    wanted = (x.double()[:, None] - x.double()).square().sum(-1)
    ours = squared_distances(x, x)
    torch.testing.assert_close(ours.double(), wanted, rtol=1e-6, atol=1e-11)
    assert (ours >= 0).all()
    assert torch.equal(ours.diagonal(), torch.zeros(20))


def test_row_by_row_distances_are_entries_of_the_matrix(draw: Draw):
    mean = draw.gaussians(6, 5).mean
    a, p, n = torch.tensor([[0, 1, 5], [2, 2, 2], [3, 4, 0]])
    matrix = squared_distances(mean, mean)
    for ours, pair in zip(triplet_distances(mean, a, p, n), ((a, p), (a, n), (p, n)), strict=True):
        torch.testing.assert_close(ours, matrix[pair])


def hits_of(query: sf.Embeddings, gallery: sf.Embeddings) -> dict[str, Any]:
    """Three rows of the gallery for each query, as arrays."""
    means = gallery.mean.numpy().reshape(len(query), 3, -1)
    return {
        "between": candidate_distances(query.mean.numpy(), means),
        "query_var": query.var.numpy(),
        "var": gallery.var.numpy().reshape(-1, 3),
        "dim": query.dim,
        "family": query.family,
    }


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_hit_distances_are_those_of_all_pairs(family: str, draw: Draw):
    query, gallery = getattr(draw, family)(4, 5), getattr(draw, family)(12, 5)
    expected, std = map(torch.from_numpy, hit_distances(**hits_of(query, gallery)))
    for row in range(4):
        one, its = query[row], gallery[3 * row : 3 * row + 3]
        torch.testing.assert_close(expected[row], expected_distance(one, its)[0])
        torch.testing.assert_close(std[row].square(), distance_variance(one, its)[0])


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
@pytest.mark.parametrize("method", ["clt", "saddlepoint"])
def test_hit_match_probabilities_are_those_of_all_pairs(family: str, method: str, draw: Draw):
    query, gallery = getattr(draw, family)(4, 5), getattr(draw, family)(12, 5)
    ours = hit_match_probability(**hits_of(query, gallery), radius=1.5, method=method)
    for row in range(4):
        its = gallery[3 * row : 3 * row + 3]
        wanted = match_probability(query[row], its, 1.5, method=method)
        torch.testing.assert_close(torch.from_numpy(ours[row]), wanted[0])


def test_gradcheck(draw: Draw):
    x, y = (draw.gaussians(n, 4).mean.requires_grad_() for n in (3, 5))
    assert torch.autograd.gradcheck(squared_distances, (x, y))
    assert torch.autograd.gradcheck(lambda z: squared_distances(z, z), (x,))
    indices = torch.tensor([[0, 1, 0], [1, 2, 2], [2, 0, 1]])
    assert torch.autograd.gradcheck(lambda z: triplet_distances(z, *indices), (x,))


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_gradcheck_of_everything_that_pairs_have(family: str, draw: Draw):
    query, gallery = getattr(draw, family)(2, 3), getattr(draw, family)(3, 3)
    leaves = [x.clone().requires_grad_() for x in (query.mean, query.spread, gallery.mean, gallery.spread)]
    unit = torch.nn.functional.normalize if family == "spheres" else lambda x, dim: x
    make = lambda mean, spread: type(query)(unit(mean, dim=1), spread)
    for function in (
        expected_distance,
        distance_variance,
        lambda q, x: match_probability(q, x, 1.1),
        lambda q, x: match_probability(q, x, 1.1, method="clt"),
    ):
        assert torch.autograd.gradcheck(
            lambda a, b, c, d, function=function: function(make(a, b), make(c, d)),
            leaves, eps=1e-5, atol=1e-6, rtol=1e-4,
        )  # fmt: skip


def test_bad_input_is_refused_by_name(draw: Draw):
    query, sphere = draw.gaussians(2, 3), draw.spheres(2, 3)
    with pytest.raises(sf.InvalidArgument, match="query, gallery: expected embeddings of one family"):
        expected_distance(query, sphere)
    with pytest.raises(sf.InvalidArgument, match=r"x, y: expected shapes .* and \(2, 4\)"):
        squared_distances(query.mean, draw.gaussians(2, 4).mean)
    for radius in (0.0, -1.0, float("nan"), float("inf"), "wide"):
        with pytest.raises(sf.InvalidArgument, match="radius: expected a positive number"):
            match_probability(query, query, radius)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidArgument, match="method"):
        match_probability(sphere, sphere, 1.0, method="exact")


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
def test_gradcheck_of_the_divergence(draw: Draw, family: str):
    batch = getattr(draw, family)(3, 4)
    mean, spread = batch.mean, batch.spread.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda s: kl_to_prior(type(batch)(mean, s)), (spread,))


def test_the_divergence_of_something_else_is_refused():
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
