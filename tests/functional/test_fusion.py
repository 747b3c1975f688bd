"""Fusion against a product of densities on a grid; query expansion against a plain loop."""

import math

import pytest
import torch
from sampling import Draw

import surefind as sf
from surefind.functional import expand, fuse


def normalised(log_density: torch.Tensor) -> torch.Tensor:
    return torch.softmax(log_density.flatten(), dim=0)


def gaussian_log_density(batch: sf.Gaussians, points: torch.Tensor) -> torch.Tensor:
    """(K, P)"""
    away = (points - batch.mean[:, None]).square().sum(-1)
    return -away / (2 * batch.var[:, None]) - batch.dim / 2 * torch.log(batch.var[:, None])


@pytest.mark.parametrize("dim", [1, 2])
def test_fused_gaussians_are_the_product_of_densities_on_a_grid(dim: int, draw: Draw):
    views = draw.gaussians(3, dim)
    axis = torch.linspace(-6, 6, 301, dtype=torch.float64)
    points = torch.cartesian_prod(*[axis] * dim).reshape(-1, dim)
    product = normalised(gaussian_log_density(views, points).sum(0))
    ours = fuse(views)
    assert isinstance(ours, sf.Gaussians)
    torch.testing.assert_close(normalised(gaussian_log_density(ours, points)), product, rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(ours.mean[0], product @ points, rtol=0, atol=1e-6)


def test_fused_directions_are_the_product_of_densities_on_a_circle(draw: Draw):
    views = draw.spheres(4, 2, kappa=3)
    angle = torch.arange(3600, dtype=torch.float64) * (2 * math.pi / 3600)
    points = torch.stack([angle.cos(), angle.sin()], dim=1)
    log_density = lambda batch: batch.spread[:, None] * (batch.mean @ points.T)
    ours = fuse(views)
    assert isinstance(ours, sf.VonMisesFisher)
    product = normalised(log_density(views).sum(0))
    torch.testing.assert_close(normalised(log_density(ours)), product, rtol=1e-9, atol=0)
    torch.testing.assert_close(torch.nn.functional.normalize(product @ points, dim=0), ours.mean[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_neither_order_nor_grouping_matters(family: str, draw: Draw):
    views = getattr(draw, family)(5, 4)
    whole = fuse(views)
    in_steps = fuse(type(views).cat([fuse(views[[4, 1]]), fuse(views[[0, 2, 3]])]))
    for other in (fuse(views[[3, 0, 4, 1, 2]]), in_steps):
        torch.testing.assert_close(other.mean, whole.mean)
        torch.testing.assert_close(other.spread, whole.spread)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_correlated_views_count_as_fewer(family: str, draw: Draw):
    one = getattr(draw, family)(1, 4)
    views = one[[0, 0, 0, 0]]
    precision = lambda batch: (one.var / batch.var).item()
    assert precision(fuse(views)) == pytest.approx(4)
    assert precision(fuse(views, correlation=0.5)) == pytest.approx(4 / 2.5)
    assert precision(fuse(views, correlation=1.0)) == pytest.approx(1)
    assert torch.equal(fuse(views, correlation=0.5).mean, fuse(views).mean)


def test_views_that_cancel_out_are_uniform():
    mean = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    ours = fuse(sf.VonMisesFisher(mean, torch.tensor([5.0, 5.0])))
    assert torch.equal(ours.mean, mean[:1])
    assert ours.spread.item() < 1e-8


def test_views_as_sharp_as_allowed_fuse_to_what_is_allowed():
    mean = torch.tensor([[1.0, 0.0]]).repeat(3, 1)
    assert fuse(sf.Gaussians(mean, torch.full((3,), 1e-12))).spread.item() == pytest.approx(1e-12)
    ours = fuse(sf.VonMisesFisher(mean, torch.full((3,), 1e12)))
    assert ours.spread.item() == pytest.approx(1e12)


def by_hand(
    query: sf.Embeddings, neighbours: sf.Embeddings, alpha: float, certainty: bool
) -> tuple[list[float], float]:
    """Mean and variance, number by number."""
    var_of = lambda b, i: float(b.var[i])
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
def test_expansion_agrees_with_a_plain_loop(family: str, alpha: float, certainty: bool, draw: Draw):
    query, neighbours = getattr(draw, family)(1, 5), getattr(draw, family)(6, 5)
    ours = expand(query, neighbours, alpha=alpha, certainty=certainty)
    mean, var = by_hand(query, neighbours, alpha, certainty)
    assert ours.mean[0].tolist() == pytest.approx(mean, abs=1e-12)
    assert ours.var.item() == pytest.approx(var)


def test_the_variance_of_an_expanded_query_is_that_of_the_weighted_mean(draw: Draw):
    query, others = draw.gaussians(1, 4), draw.gaussians(3, 4)
    neighbours = sf.Gaussians(query.mean + 0.5 * others.mean, others.var)
    ours = expand(query, neighbours, alpha=0, certainty=False)  # weights of 1
    together = sf.Gaussians.cat([query, neighbours])
    scale = query.mean.norm() / together.mean.sum(0).norm()
    sampled = scale * draw.samples(together, 100_000).sum(1)
    torch.testing.assert_close(sampled.mean(0), ours.mean[0], rtol=0, atol=0.02)
    assert sampled.var(0).mean().item() == pytest.approx(ours.spread.item(), rel=0.02)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_many_queries_are_expanded_as_one_by_one(family: str, draw: Draw):
    query, neighbours = getattr(draw, family)(4, 5), getattr(draw, family)(12, 5)
    together = expand(query, neighbours)
    for row in range(4):
        alone = expand(query[row], neighbours[3 * row : 3 * row + 3])
        torch.testing.assert_close(alone.mean[0], together.mean[row])
        torch.testing.assert_close(alone.spread[0], together.spread[row])


def test_a_query_that_cancels_out_with_its_neighbours_is_unchanged(draw: Draw):
    query = draw.spheres(1, 4)
    opposite = sf.VonMisesFisher(-query.mean, query.kappa)
    for before in (query, sf.Gaussians(torch.zeros(1, 4), torch.ones(1))):
        after = expand(before, opposite if before is query else before, alpha=0, certainty=False)
        assert torch.equal(after.mean, before.mean)
        torch.testing.assert_close(after.spread, before.spread)


def test_the_dtype_is_kept(draw: Draw):
    batch = draw.spheres(3, 4).to(torch.float32)
    assert fuse(batch).mean.dtype == expand(batch[0], batch).mean.dtype == torch.float32


def test_bad_input_is_refused_by_name(draw: Draw):
    views = draw.gaussians(2, 3)
    with pytest.raises(sf.InvalidArgument, match="views: expected at least one row"):
        fuse(views[:0])
    for wrong in (-0.1, 1.1, float("nan"), "a"):
        with pytest.raises(sf.InvalidArgument, match="correlation: expected a number from 0 to 1"):
            fuse(views, correlation=wrong)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidArgument, match="views: expected Gaussians or VonMisesFisher"):
        fuse(views.mean)  # type: ignore[arg-type]
    for count in (0, 3):
        with pytest.raises(sf.InvalidArgument, match="neighbours: expected as many rows for each"):
            expand(views, draw.gaussians(3, 3)[:count])
    for wrong in (-1.0, float("inf"), "a"):
        with pytest.raises(sf.InvalidArgument, match="alpha: expected a number from 0 on"):
            expand(views, views, alpha=wrong)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidArgument, match="query, neighbours: expected embeddings of one"):
        expand(views, draw.spheres(2, 3))
