"""P(nearest of K): against sampling, a plain loop over covariances, and closed cases."""

import math

import pytest
import torch
from sampling import Draw

import surefind as sf
from surefind.functional import nearer_probability, nearest_probability, triplet_moments
from surefind.functional.nearest import MOST_HITS, _gaussian_race, _sphere_race
from surefind.functional.sphere import sphere_terms

QMC = 5e-3  # how far the integral may be off
DRAWN = 30_000


def close_hits(draw: Draw, family: str, dim: int, k: int) -> tuple[sf.Embeddings, sf.Embeddings]:
    """A query and hits of which each may be the nearest."""
    if family == "gaussians":
        return draw.gaussians(1, dim, scale=0.5, var=0.3), draw.gaussians(
            k, dim, scale=0.5, var=0.3
        )
    return draw.spheres(1, dim, kappa=2.0 * dim), draw.spheres(k, dim, kappa=2.0 * dim)


def sampled_distances(draw: Draw, query: sf.Embeddings, hits: sf.Embeddings) -> torch.Tensor:
    """(count, K)"""
    return (draw.samples(query, DRAWN) - draw.samples(hits, DRAWN)).square().sum(-1)


def without_common_part(covariance: torch.Tensor) -> torch.Tensor:
    centre = torch.eye(len(covariance), dtype=torch.float64) - 1 / len(covariance)
    return centre @ covariance @ centre


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
@pytest.mark.parametrize(("dim", "error"), [(8, 0.03), (48, 0.02)])
def test_shares_agree_with_sampling(family: str, dim: int, error: float, draw: Draw):
    query, hits = close_hits(draw, family, dim, 5)
    sampled = sampled_distances(draw, query, hits).argmin(1).bincount(minlength=5) / DRAWN
    ours = nearest_probability(query, hits, per_query=5)[0]
    assert (sampled > 0.02).sum() >= 3  # no foregone conclusion
    torch.testing.assert_close(ours, sampled.double(), rtol=0, atol=error)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
@pytest.mark.parametrize("dim", [3, 16])
def test_covariances_agree_with_sampling(family: str, dim: int, draw: Draw):
    query, hits = close_hits(draw, family, dim, 4)
    race = (_gaussian_race if family == "gaussians" else _sphere_race)(query, hits, 4)
    ours = without_common_part(race.shared[0] + race.own[0].diag())
    sampled = without_common_part(sampled_distances(draw, query, hits).T.cov())
    torch.testing.assert_close(ours, sampled, rtol=0, atol=0.05 * ours.abs().max().item())


def test_covariances_of_gaussians_agree_with_a_plain_loop(draw: Draw):
    query, hits = draw.gaussians(1, 6), draw.gaussians(4, 6)
    q, race = query.var.item(), _gaussian_race(query, hits, 4)
    wanted = torch.zeros(4, 4, dtype=torch.float64)
    for i in range(4):
        for j in range(4):
            away = [(hits.mean[row] - query.mean[0]).tolist() for row in (i, j)]
            inner = sum(a * b for a, b in zip(*away, strict=True))
            total = q + (hits.var[i].item() if i == j else 0.0)
            wanted[i, j] = 2 * 6 * total**2 + 4 * total * inner
    ours = without_common_part(race.shared[0] + race.own[0].diag())
    torch.testing.assert_close(ours, without_common_part(wanted))


def test_covariances_on_the_sphere_agree_with_a_plain_loop(draw: Draw):
    query, hits = draw.spheres(1, 6), draw.spheres(4, 6)
    q, x = sphere_terms(query.spread, 6), sphere_terms(hits.spread, 6)
    alpha, beta = q.across.item(), 1 - 6 * q.across.item()  # E[qq'] = alpha I + beta mu mu'
    race = _sphere_race(query, hits, 4)
    for i in range(4):
        for j in range(4):
            c_i, c_j = (float(hits.mean[row] @ query.mean[0]) for row in (i, j))
            c_ij = float(hits.mean[i] @ hits.mean[j])
            cov = 4 * x.length[i] * x.length[j]
            cov = cov * (alpha * c_ij + beta * c_i * c_j - q.length.item() ** 2 * c_i * c_j)
            difference = triplet_moments(query, hits[i], hits[j]).var[0]
            variances = [race.shared[0, row, row] + race.own[0, row] for row in (i, j)]
            if i != j:  # Var(t_i - t_j) holds the covariance, whatever is left out of both
                ours = variances[0] + variances[1] - 2 * race.shared[0, i, j]
                torch.testing.assert_close(ours, difference)
                full = [sf.functional.distance_variance(query, hits[r])[0, 0] for r in (i, j)]
                torch.testing.assert_close(sum(full) - 2 * cov, difference)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_of_two_hits_it_is_the_normal_probability_to_be_nearer(family: str, draw: Draw):
    query, hits = getattr(draw, family)(40, 12), getattr(draw, family)(80, 12)
    wanted = nearer_probability(query, hits[0::2], hits[1::2], method="clt")
    assert ((wanted > 0.1) & (wanted < 0.9)).sum() > 10
    ours = nearest_probability(query, hits, per_query=2)
    torch.testing.assert_close(ours[:, 0], wanted, rtol=0, atol=2e-3)
    torch.testing.assert_close(ours.sum(1), torch.ones(40, dtype=torch.float64))


def test_of_three_hits_with_equal_expected_distances_it_is_an_arcsine(draw: Draw):
    """For normal differences of mean 0, P(both < 0) = 1/4 + arcsin(correlation) / (2 pi)."""
    dim, var = 16, torch.tensor([0.01, 0.3, 1.1], dtype=torch.float64)
    query = sf.Gaussians(torch.zeros(1, dim, dtype=torch.float64), var[:1])
    away = draw.gaussians(3, dim).mean
    length = (20 - dim * var).sqrt()[:, None]
    hits = sf.Gaussians(length * torch.nn.functional.normalize(away, dim=1), var)
    race = _gaussian_race(query, hits, 3)
    cov = race.shared[0] + race.own[0].diag()
    ours = nearest_probability(query, hits, per_query=3)[0]
    for i, j, k in ((0, 1, 2), (1, 0, 2), (2, 0, 1)):
        both = cov[i, i] - cov[i, j] - cov[i, k] + cov[j, k]
        one, other = (cov[i, i] + cov[r, r] - 2 * cov[i, r] for r in (j, k))
        wanted = 0.25 + torch.asin(both / (one * other).sqrt()) / (2 * math.pi)
        assert ours[i].item() == pytest.approx(wanted.item(), abs=QMC)
    assert ours.max() - ours.min() > 0.05  # not just a third each


@pytest.mark.parametrize("k", [2, 5, 10])
def test_hits_that_are_alike_in_all_but_direction_have_equal_shares(k: int):
    mean = torch.eye(k, dtype=torch.float64)
    query = torch.full((1, k), k**-0.5, dtype=torch.float64)
    for make in (sf.Gaussians, sf.VonMisesFisher):
        batch = make(mean, torch.full((k,), 3.0, dtype=torch.float64))
        ours = nearest_probability(make(query, batch.spread[:1]), batch, per_query=k)
        torch.testing.assert_close(ours, torch.full_like(ours, 1 / k), rtol=0, atol=QMC)


@pytest.mark.parametrize("var", [1e-12, 1e-8, 1e-2, 1e4])
def test_duplicates_share_equally_and_leave_the_rest_alone(var: float, draw: Draw):
    mean = draw.gaussians(3, 8).mean[[0, 1, 0, 2, 0]]
    hits = sf.Gaussians(mean, torch.full((5,), var, dtype=torch.float64))
    ours = nearest_probability(hits[0], hits, per_query=5)[0]
    assert not ours.isnan().any()
    torch.testing.assert_close(ours[[2, 4]], ours[[0, 0]], rtol=0, atol=1e-12)
    if var < 1e-4:
        wanted = torch.tensor([1, 0, 1, 0, 1], dtype=torch.float64) / 3
        torch.testing.assert_close(ours, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_with_vanishing_variances_the_nearest_mean_has_everything(family: str, draw: Draw):
    query, hits = getattr(draw, family)(20, 6), getattr(draw, family)(200, 6)
    sharp = 1e-9 if family == "gaussians" else 1e9
    point = lambda batch: batch.replace(batch.mean, torch.full_like(batch.spread, sharp))
    ours = nearest_probability(point(query), point(hits), per_query=10)
    away = (hits.mean.reshape(20, 10, 6) - query.mean[:, None]).square().sum(-1)
    assert torch.equal(ours.argmax(1), away.argmin(1))
    assert (ours.max(1).values > 0.99).all()


@pytest.mark.parametrize("spread", [1e-12, 1e-9, 1e9, 1e12])
def test_extreme_spreads_give_probabilities(spread: float, draw: Draw):
    extreme = torch.full((6,), spread, dtype=torch.float64)
    for batch in (draw.gaussians(6, 3), draw.spheres(6, 3)):
        gaussian = isinstance(batch, sf.Gaussians)
        bounds = (1e-12, 1e9) if gaussian else (1e-9, 1e12)
        hits = batch.replace(batch.mean, extreme.clamp(*bounds))
        for query in (hits[0], batch[1]):
            ours = nearest_probability(query, hits, per_query=6)
            assert ((ours >= 0) & (ours <= 1)).all()
            assert ours.sum().item() == pytest.approx(1, abs=1e-12)


def test_a_hit_that_moves_away_loses_to_all_others(draw: Draw):
    query, hits = close_hits(draw, "gaussians", 16, 4)
    direction = torch.nn.functional.normalize(hits.mean[:1] - query.mean, dim=1)
    last = None
    for step in torch.linspace(0.5, 6, 30, dtype=torch.float64).tolist():
        mean = torch.cat([query.mean + step * direction, hits.mean[1:]])
        ours = nearest_probability(query, sf.Gaussians(mean, hits.var), per_query=4)[0]
        if last is not None:
            assert ours[0] <= last[0] + 1e-9
            assert (ours[1:] >= last[1:] - 1e-3).all()
        last = ours
    assert last is not None and last[0] < 0.01


def test_the_order_of_hits_is_of_no_consequence(draw: Draw):
    query, hits = close_hits(draw, "spheres", 32, 7)
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    ours = nearest_probability(query, hits, per_query=7)[0]
    torch.testing.assert_close(
        nearest_probability(query, hits[order], per_query=7)[0], ours[order], rtol=0, atol=2 * QMC
    )


def test_many_queries_are_as_one_by_one_and_as_before(draw: Draw):
    query, hits = draw.gaussians(70, 5), draw.gaussians(210, 5)
    together = nearest_probability(query, hits, per_query=3)
    assert torch.equal(together, nearest_probability(query, hits, per_query=3))
    for row in (0, 33, 69):
        alone = nearest_probability(query[row], hits[3 * row : 3 * row + 3], per_query=3)
        torch.testing.assert_close(alone[0], together[row], rtol=0, atol=1e-6)


def test_a_single_hit_is_the_nearest_and_no_query_gets_no_answer(draw: Draw):
    query = draw.gaussians(3, 4)
    assert torch.equal(
        nearest_probability(query, draw.gaussians(3, 4), per_query=1),
        torch.ones(3, 1, dtype=torch.float64),
    )
    assert nearest_probability(query[:0], query[:0], per_query=3).shape == (0, 3)


def test_bad_input_is_refused_by_name(draw: Draw):
    query = draw.gaussians(2, 4)
    with pytest.raises(sf.InvalidArgument, match="gallery: expected 6 rows, 3 for each query"):
        nearest_probability(query, draw.gaussians(5, 4), per_query=3)
    for count in (0, -1, 1.5, "a"):
        with pytest.raises(sf.InvalidArgument, match="per_query: expected a whole number"):
            nearest_probability(query, query, per_query=count)  # type: ignore[arg-type]
    many = draw.gaussians(MOST_HITS + 1, 2)
    with pytest.raises(sf.InvalidArgument, match="per_query: expected at most 1,000 hits"):
        nearest_probability(many[0], many, per_query=len(many))
    with pytest.raises(sf.InvalidArgument, match="embeddings of one family"):
        nearest_probability(query, draw.spheres(2, 4), per_query=1)
