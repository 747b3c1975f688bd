"""Several views as one: the product of their densities, multiplied out on a grid."""

import math

import pytest
import torch
from sampling import Draw

import surefind as sf
from surefind.functional import fuse


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
    torch.testing.assert_close(
        normalised(gaussian_log_density(ours, points)), product, rtol=1e-8, atol=1e-12
    )
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
    torch.testing.assert_close(
        torch.nn.functional.normalize(product @ points, dim=0), ours.mean[0], rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
def test_one_view_is_unchanged(family: str, correlation: float, draw: Draw):
    view = getattr(draw, family)(1, 5)
    ours = fuse(view, correlation=correlation)
    torch.testing.assert_close(ours.mean, view.mean)
    torch.testing.assert_close(ours.spread, view.spread)


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
    precision = lambda batch: (
        (1 / batch.spread if family == "gaussians" else batch.spread).item()
        / (1 / one.spread if family == "gaussians" else one.spread).item()
    )
    assert precision(fuse(views)) == pytest.approx(4)
    assert precision(fuse(views, correlation=0.5)) == pytest.approx(4 / 2.5)
    assert precision(fuse(views, correlation=1.0)) == pytest.approx(1)
    assert torch.equal(fuse(views, correlation=0.5).mean, fuse(views).mean)


def test_a_vague_view_hardly_moves_a_sharp_one(draw: Draw):
    views = sf.Gaussians(torch.eye(2), torch.tensor([1e-4, 1.0]))
    assert (fuse(views).mean[0] - views.mean[0]).norm() < 1e-3


def test_views_that_cancel_out_know_nothing():
    mean = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    ours = fuse(sf.VonMisesFisher(mean, torch.tensor([5.0, 5.0])))
    assert torch.equal(ours.mean, mean[:1])
    assert ours.spread.item() < 1e-8


def test_views_as_sharp_as_allowed_fuse_to_what_is_allowed():
    mean = torch.tensor([[1.0, 0.0]]).repeat(3, 1)
    assert fuse(sf.Gaussians(mean, torch.full((3,), 1e-12))).spread.item() == pytest.approx(1e-12)
    ours = fuse(sf.VonMisesFisher(mean, torch.full((3,), 1e12)))
    assert ours.spread.item() == pytest.approx(1e12)


def test_the_type_of_numbers_is_kept(draw: Draw):
    assert fuse(draw.spheres(3, 4).to(torch.float32)).mean.dtype == torch.float32


def test_bad_input_is_refused_by_name(draw: Draw):
    views = draw.gaussians(2, 3)
    with pytest.raises(sf.InvalidArgument, match="views: expected at least one row"):
        fuse(views[:0])
    for wrong in (-0.1, 1.1, float("nan"), "a"):
        with pytest.raises(sf.InvalidArgument, match="correlation: expected a number from 0 to 1"):
            fuse(views, correlation=wrong)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidArgument, match="views: expected Gaussians or VonMisesFisher"):
        fuse(views.mean)  # type: ignore[arg-type]
