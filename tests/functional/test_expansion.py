"""Query expansion: against a plain loop, sampling, and the cases that explain it."""

import math

import pytest
import torch
from sampling import Draw

import surefind as sf
from surefind.functional import expand


def near(draw: Draw, family: str, dim: int, count: int) -> tuple[sf.Embeddings, sf.Embeddings]:
    """A query and neighbours on its side of the origin."""
    query, others = getattr(draw, family)(1, dim), getattr(draw, family)(count, dim)
    mean = query.mean + 0.5 * others.mean
    if family == "spheres":
        mean = torch.nn.functional.normalize(mean, dim=1)
    return query, others.replace(mean, others.spread)


def by_hand(
    query: sf.Embeddings, neighbours: sf.Embeddings, alpha: float, certainty: bool
) -> tuple[list[float], float]:
    """Mean and variance, number by number."""
    var_of = lambda b, i: float(b.spread[i] if b.family == "gaussian" else 1 / b.spread[i])
    q, q_var = query.mean[0].tolist(), var_of(query, 0)
    length = math.sqrt(sum(x * x for x in q))
    total, noise = list(q), q_var
    for row in range(len(neighbours)):
        x, var = neighbours.mean[row].tolist(), var_of(neighbours, row)
        inner = sum(a * b for a, b in zip(q, x, strict=True))
        cos = inner / length / math.sqrt(sum(a * a for a in x))
        weight = max(0.0, cos) ** alpha
        if certainty:
            weight *= 2 * (1 / var) / (1 / q_var + 1 / var)
        total = [t + weight * a for t, a in zip(total, x, strict=True)]
        noise += weight**2 * var
    scale = length / math.sqrt(sum(t * t for t in total))
    return [scale * t for t in total], noise * scale**2


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("certainty", [False, True])
def test_it_agrees_with_a_plain_loop(family: str, alpha: float, certainty: bool, draw: Draw):
    query, neighbours = getattr(draw, family)(1, 5), getattr(draw, family)(6, 5)
    ours = expand(query, neighbours, alpha=alpha, certainty=certainty)
    mean, var = by_hand(query, neighbours, alpha, certainty)
    assert ours.mean[0].tolist() == pytest.approx(mean, abs=1e-12)
    spread = ours.spread.item()
    assert (spread if family == "gaussians" else 1 / spread) == pytest.approx(var)


def test_the_variance_is_that_of_the_weighted_mean(draw: Draw):
    query, neighbours = near(draw, "gaussians", 4, 3)
    ours = expand(query, neighbours, alpha=0, certainty=False)  # weights of 1
    together = sf.Gaussians.cat([query, neighbours])
    scale = query.mean.norm() / together.mean.sum(0).norm()
    sampled = scale * draw.samples(together, 100_000).sum(1)
    torch.testing.assert_close(sampled.mean(0), ours.mean[0], rtol=0, atol=0.02)
    assert sampled.var(0).mean().item() == pytest.approx(ours.spread.item(), rel=0.02)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_neighbours_as_precise_as_the_query_give_plain_expansion(family: str, draw: Draw):
    query, neighbours = near(draw, family, 5, 4)
    alike = neighbours.replace(neighbours.mean, query.spread.expand(4))
    with_it, without = (expand(query, alike, certainty=certainty) for certainty in (True, False))
    torch.testing.assert_close(with_it.mean, without.mean)
    torch.testing.assert_close(with_it.spread, without.spread)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_a_vague_neighbour_fades(family: str, draw: Draw):
    query, neighbours = near(draw, family, 5, 1)
    vague = 1e8 if family == "gaussians" else 1e-8
    outlier = neighbours.replace(neighbours.mean, torch.full_like(neighbours.spread, vague))
    torch.testing.assert_close(expand(query, outlier).mean, query.mean, rtol=0, atol=1e-6)
    assert (expand(query, outlier, certainty=False).mean - query.mean).norm() > 0.05


def test_what_lies_opposite_has_no_say(draw: Draw):
    query = draw.gaussians(1, 4)
    opposite = sf.Gaussians(-2 * query.mean, query.var)
    torch.testing.assert_close(expand(query, opposite).mean, query.mean)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_the_length_of_the_query_is_kept(family: str, draw: Draw):
    query, neighbours = near(draw, family, 6, 5)
    torch.testing.assert_close(expand(query, neighbours).mean.norm(), query.mean.norm())


def test_the_nearer_a_neighbour_the_more_it_counts_with_alpha():
    query = sf.Gaussians(torch.tensor([[1.0, 0.0, 0.0]]), torch.ones(1))
    mean = torch.tensor([[0.9, 0.4359, 0.0], [0.4359, 0.0, 0.9]])
    pulled = expand(query, sf.Gaussians(mean, torch.ones(2)), alpha=3).mean[0]
    assert pulled[1] > 4 * pulled[2] > 0


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_many_queries_are_as_one_by_one(family: str, draw: Draw):
    query, neighbours = getattr(draw, family)(4, 5), getattr(draw, family)(12, 5)
    together = expand(query, neighbours)
    for row in range(4):
        alone = expand(query[row], neighbours[3 * row : 3 * row + 3])
        torch.testing.assert_close(alone.mean[0], together.mean[row])
        torch.testing.assert_close(alone.spread[0], together.spread[row])


def test_a_query_that_is_averaged_away_stays(draw: Draw):
    query = draw.spheres(1, 4)
    opposite = sf.VonMisesFisher(-query.mean, query.kappa)
    for before in (query, sf.Gaussians(torch.zeros(1, 4), torch.ones(1))):
        after = expand(before, opposite if before is query else before, alpha=0, certainty=False)
        assert torch.equal(after.mean, before.mean)
        torch.testing.assert_close(after.spread, before.spread)


def test_the_type_of_numbers_is_kept(draw: Draw):
    batch = draw.spheres(3, 4).to(torch.float32)
    assert expand(batch[0], batch).mean.dtype == torch.float32


def test_bad_input_is_refused_by_name(draw: Draw):
    query = draw.gaussians(2, 3)
    for count in (0, 3):
        with pytest.raises(sf.InvalidArgument, match="neighbours: expected as many rows for each"):
            expand(query, draw.gaussians(3, 3)[:count])
    for wrong in (-1.0, float("inf"), "a"):
        with pytest.raises(sf.InvalidArgument, match="alpha: expected a number from 0 on"):
            expand(query, query, alpha=wrong)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidArgument, match="query, neighbours: expected embeddings of one"):
        expand(query, draw.spheres(2, 3))
