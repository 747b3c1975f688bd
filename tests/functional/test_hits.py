"""Hits row by row: the same numbers as those of all pairs."""

import pytest
import torch
from sampling import Draw

import surefind as sf
from surefind.functional import (
    distance,
    distance_variance,
    expected_distance,
    hit_distances,
    hit_match_probability,
    match_probability,
    squared_distances,
)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_distances_are_those_of_all_pairs(family: str, draw: Draw):
    query, gallery = getattr(draw, family)(4, 5), getattr(draw, family)(12, 5)
    ours = hit_distances(query, gallery, per_query=3)
    for row in range(4):
        one, its = query[row], gallery[3 * row : 3 * row + 3]
        torch.testing.assert_close(ours.distance[row], squared_distances(one.mean, its.mean)[0])
        torch.testing.assert_close(ours.expected[row], expected_distance(one, its)[0])
        torch.testing.assert_close(ours.std[row].square(), distance_variance(one, its)[0])


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
@pytest.mark.parametrize("method", ["clt", "saddlepoint"])
def test_match_probabilities_are_those_of_all_pairs(family: str, method: str, draw: Draw):
    query, gallery = getattr(draw, family)(4, 5), getattr(draw, family)(12, 5)
    ours = hit_match_probability(query, gallery, 1.5, per_query=3, method=method)
    for row in range(4):
        its = gallery[3 * row : 3 * row + 3]
        wanted = match_probability(query[row], its, 1.5, method=method)
        torch.testing.assert_close(ours[row], wanted[0])


def test_blocks_of_any_size_give_the_same(draw: Draw, monkeypatch: pytest.MonkeyPatch):
    query, gallery = draw.gaussians(7, 5), draw.gaussians(21, 5)
    whole = hit_distances(query, gallery, per_query=3)
    monkeypatch.setattr(distance, "NUMBERS_AT_ONCE", 31)
    for ours, wanted in zip(hit_distances(query, gallery, per_query=3), whole, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=0, atol=0)


def test_close_points_keep_their_digits_though_they_come_in_single_precision(draw: Draw):
    mean = (100 + draw.gaussians(2, 64).mean * 1e-3).float()
    batch = sf.Gaussians(mean, torch.full((2,), 1e-6))
    ours = hit_distances(batch[0], batch[1], per_query=1)
    wanted = sum((a - b) ** 2 for a, b in zip(*mean.tolist(), strict=True))
    assert ours.distance.dtype == torch.float64
    assert ours.distance.item() == pytest.approx(wanted, rel=1e-12)


def test_bad_input_is_refused_by_name(draw: Draw):
    query, sphere = draw.gaussians(2, 3), draw.spheres(2, 3)
    with pytest.raises(sf.InvalidArgument, match="gallery: expected 4 rows, 2 for each query"):
        hit_distances(query, query, per_query=2)
    with pytest.raises(sf.InvalidArgument, match="radius: expected a positive number"):
        hit_match_probability(query, query, 0.0, per_query=1)
    with pytest.raises(sf.InvalidArgument, match="'clt' or 'saddlepoint' for von Mises-Fisher"):
        hit_match_probability(sphere, sphere, 1.0, per_query=1, method="exact")
