"""Moments of tau: against a plain loop, sampling, the paper's polynomial and closed cases."""

import pytest
import torch
from sampling import Draw, tau

import surefind as sf
from surefind.functional import triplet_log_prob, triplet_moments
from surefind.functional.triplet import SphereTriplets, _half_tau, triplets_of


def element_wise(a: sf.Gaussians, p: sf.Gaussians, n: sf.Gaussians) -> tuple[float, float]:
    """One triplet, coordinate by coordinate, by the expanded polynomial of the supplement."""
    va, vp, vn = (float(x.var) for x in (a, p, n))
    mean = var = 0.0
    for ma, mp, mn in zip(*(x.mean[0].tolist() for x in (a, p, n)), strict=True):
        mean += mp**2 + vp - mn**2 - vn - 2 * ma * (mp - mn)
        for m, v in ((mp, vp), (mn, vn)):
            var += 2 * (v**2 + 2 * m**2 * v + 2 * (va + ma**2) * (v + m**2) - 2 * ma**2 * m**2)
            var -= 8 * ma * m * v
        var -= 8 * mp * mn * va
    return mean, var


def test_gaussian_moments_agree_with_a_plain_loop(draw: Draw):
    triplets = [draw.gaussians(25, 6) for _ in range(3)]
    mean, var = triplet_moments(*triplets)
    for row in range(25):
        wanted = element_wise(*(t[row] for t in triplets))
        assert (mean[row].item(), var[row].item()) == pytest.approx(wanted, rel=1e-11)


@pytest.mark.parametrize("dim", [3, 8, 64])
@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_moments_agree_with_sampling(family: str, dim: int, draw: Draw):
    triplets = [getattr(draw, family)(4, dim) for _ in range(3)]
    mean, var = triplet_moments(*triplets)
    sampled = tau(*(draw.samples(t, 40_000) for t in triplets))
    error = (sampled.mean(0) - mean) / sampled.std(0)
    assert error.abs().max().item() < 0.03
    torch.testing.assert_close(sampled.var(0), var, rtol=0.06, atol=0)


@pytest.mark.parametrize("dim", [3, 8, 64])
def test_the_third_cumulant_on_the_sphere_agrees_with_sampling(dim: int, draw: Draw):
    triplets = [draw.spheres(3, dim, kappa=1.5 * dim) for _ in range(3)]
    scalars = triplets_of(*triplets)
    assert isinstance(scalars, SphereTriplets)
    half = _half_tau(scalars)
    sampled = tau(*(draw.samples(t, 100_000) for t in triplets)) / 2
    skew = (sampled - sampled.mean(0)).pow(3).mean(0) / sampled.std(0) ** 3
    torch.testing.assert_close(half.third / half.var**1.5, skew, rtol=0, atol=0.05)


@pytest.mark.parametrize("dim", [3, 8, 64])
def test_on_the_sphere_the_saddlepoint_is_nearer_to_sampling_than_the_normal(dim: int, draw: Draw):
    triplets = [draw.spheres(1, dim, kappa=8 * dim) for _ in range(3)]
    sampled = tau(*(draw.samples(t, 300_000) for t in triplets))
    mean, var = triplet_moments(*triplets)
    worst = {"clt": 0.0, "saddlepoint": 0.0}
    for z in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0):
        x = (mean + z * var.sqrt()).item()
        for method in worst:
            ours = triplet_log_prob(*triplets, margin=-x, method=method).exp().item()
            gap = abs(ours - (sampled < x).double().mean().item())
            worst[method] = max(worst[method], gap)
    assert worst["saddlepoint"] < max(0.003, worst["clt"] / 2)


def test_sharp_embeddings_on_the_sphere_are_gaussians_in_the_tangent_plane(draw: Draw):
    """At kappa >> D the exact moments and the paper's Gaussian ones differ by O(D / kappa)."""
    triplets = [draw.spheres(6, 4, kappa=1e6) for _ in range(3)]
    exact, gaussian = (triplet_moments(*triplets, sphere=s) for s in ("exact", "gaussian"))
    torch.testing.assert_close(exact.mean, gaussian.mean, rtol=1e-4, atol=1e-5)
    assert (exact.var < gaussian.var).all()  # no noise along the radius


def test_the_papers_moments_on_the_sphere_are_those_of_gaussians(draw: Draw):
    triplets = [draw.spheres(6, 4) for _ in range(3)]
    paper = triplet_moments(*triplets, sphere="gaussian")
    assert torch.equal(paper.var, triplet_moments(*(t.as_gaussians() for t in triplets)).var)


def test_centred_drops_what_changes_sign_with_the_spreads_of_positive_and_negative(draw: Draw):
    a, p, n = (draw.gaussians(5, 8) for _ in range(3))
    full, centred = triplet_moments(a, p, n), triplet_moments(a, p, n, centred=True)
    torch.testing.assert_close(full.mean - centred.mean, 8 * (p.var - n.var))
    assert torch.equal(full.var, centred.var)
    a, p, n = (draw.spheres(5, 8) for _ in range(3))
    swapped = (sf.VonMisesFisher(p.mean, n.kappa), sf.VonMisesFisher(n.mean, p.kappa))
    both = triplet_moments(a, p, n).mean + triplet_moments(a, *swapped).mean
    torch.testing.assert_close(triplet_moments(a, p, n, centred=True).mean, both / 2)


def test_points_give_the_triplet_constraint():
    """With vanishing variances, P is 1 or 0 as the means are in order or not."""
    a, p, n = torch.tensor([[0.0, 0]]), torch.tensor([[1.0, 0]]), torch.tensor([[3.0, 0]])
    point = lambda mean: sf.Gaussians(mean, torch.full((1,), 1e-9))
    for method in ("clt", "saddlepoint", "exact"):
        assert triplet_log_prob(point(a), point(p), point(n), method=method).item() > -1e-6
        assert triplet_log_prob(point(a), point(n), point(p), method=method).item() < -1e4


def test_the_nearer_of_two_is_the_one_with_more_than_half(draw: Draw):
    query, near, far = draw.gaussians(3, 5), draw.gaussians(3, 5), draw.gaussians(3, 5)
    one = sf.functional.nearer_probability(query, near, far)
    other = sf.functional.nearer_probability(query, far, near)
    torch.testing.assert_close(one + other, torch.ones_like(one), rtol=0, atol=1e-2)
    samples = [draw.samples(x, 50_000) for x in (query, near, far)]
    torch.testing.assert_close(one, (tau(*samples) < 0).double().mean(0), rtol=0, atol=0.01)


@pytest.mark.parametrize("method", ["clt", "saddlepoint", "exact"])
@pytest.mark.parametrize("centred", [False, True])
def test_gradcheck_for_gaussians(method: str, centred: bool, draw: Draw):
    for dim in (1, 3, 12):
        leaves = [
            part.clone().requires_grad_()
            for batch in (draw.gaussians(3, dim) for _ in range(3))
            for part in (batch.mean, batch.var)
        ]
        function = lambda *x: triplet_log_prob(
            *(sf.Gaussians(*x[i : i + 2]) for i in (0, 2, 4)), 0.1, method, centred=centred
        )
        assert torch.autograd.gradcheck(function, leaves, eps=1e-5, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("method", ["clt", "saddlepoint", "exact"])
def test_gradcheck_where_positive_and_negative_are_equally_vague(method: str, draw: Draw):
    means = [draw.gaussians(3, 4).mean for _ in range(3)]
    var = torch.full((3,), 0.3, dtype=torch.float64)
    function = lambda *vars: triplet_log_prob(
        *(sf.Gaussians(mean, v) for mean, v in zip(means, vars, strict=True)), 0.1, method
    )
    leaves = [var.clone().requires_grad_() for _ in range(3)]
    assert torch.autograd.gradcheck(function, leaves, eps=1e-5, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("method", ["clt", "saddlepoint"])
@pytest.mark.parametrize("centred", [False, True])
def test_gradcheck_on_the_sphere(method: str, centred: bool, draw: Draw):
    for dim in (2, 3, 9):
        batches = [draw.spheres(3, dim) for _ in range(3)]
        leaves = [part.clone().requires_grad_() for batch in batches for part in (batch.mean, batch.kappa)]
        unit = torch.nn.functional.normalize
        function = lambda *x: triplet_log_prob(
            *(sf.VonMisesFisher(unit(x[i], dim=1), x[i + 1]) for i in (0, 2, 4)),
            0.1, method, centred=centred,
        )  # fmt: skip
        assert torch.autograd.gradcheck(function, leaves, eps=1e-5, atol=1e-6, rtol=1e-4)


def test_one_anchor_serves_many_pairs(draw: Draw):
    a, p, n = draw.gaussians(1, 4), draw.gaussians(5, 4), draw.gaussians(5, 4)
    together = triplet_log_prob(a, p, n)
    for row in range(5):
        torch.testing.assert_close(triplet_log_prob(a, p[row], n[row])[0], together[row])


def test_bad_input_is_refused_by_name(draw: Draw):
    a, sphere = draw.gaussians(2, 4), draw.spheres(2, 4)
    with pytest.raises(sf.InvalidArgument, match="anchor, positive: expected embeddings of one fam"):
        triplet_moments(a, sphere, a)
    with pytest.raises(sf.InvalidArgument, match="anchor, negative: expected .* of one dimension"):
        triplet_moments(a, a, draw.gaussians(2, 5))
    with pytest.raises(sf.InvalidArgument, match="as many rows"):
        triplet_moments(a, a, draw.gaussians(3, 4))
    with pytest.raises(sf.InvalidArgument, match="method: expected one of.*\n.*'saddlepoint'"):
        triplet_log_prob(a, a, a, method="sadlepoint")
    with pytest.raises(sf.InvalidArgument, match="'clt' or 'saddlepoint' for von Mises-Fisher"):
        triplet_log_prob(sphere, sphere, sphere, method="exact")
    with pytest.raises(sf.InvalidArgument, match="sphere: expected one of exact, gaussian"):
        triplet_moments(sphere, sphere, sphere, sphere="gauss")
    with pytest.raises(sf.InvalidArgument, match="positive: expected Gaussians or VonMisesFisher"):
        triplet_moments(a, a.mean, a)  # type: ignore[arg-type]
