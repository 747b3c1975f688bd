"""Uncertainty signals, from embeddings small enough to work out by hand."""

import pytest
import torch

import surefind as sf
from surefind.functional import distance_variance
from surefind.reports.signals import DEPTH, TRAINING_FREE, neighbours, uncertainty_signals

F64 = torch.float64


def gaussians(means: list[list[float]], var: list[float]) -> sf.Gaussians:
    return sf.Gaussians(torch.tensor(means), torch.tensor(var))


def test_signals_of_gaussians_are_their_definitions():
    query = gaussians([[0.0, 0.0]], [0.5])
    gallery = gaussians([[3.0, 0.0], [1.0, 0.0]], [0.1, 0.25])
    found = neighbours("means", query, gallery, 2)
    signals = uncertainty_signals(query, gallery, found, by_means=found, learned=True)
    assert {name: round(float(value), 6) for name, value in signals.items()} == {
        "query_var": 0.5,
        "pair_var": 0.75,
        "distance_std": round(float(distance_variance(query, gallery)[0, 1].sqrt()), 6),
        "nearest_distance": 1.0,
        "ratio_1_2": round(1 / 9, 6),
        "nearest_cosine": 1.0,  # the query is the origin: it has no direction
    }


def test_on_the_sphere_the_variance_is_one_over_kappa():
    query = sf.VonMisesFisher(torch.tensor([[1.0, 0.0]]), torch.tensor([4.0]))
    gallery = sf.VonMisesFisher(torch.tensor([[0.0, 1.0]]), torch.tensor([2.0]))
    found = neighbours("means", query, gallery, 1)
    signals = uncertainty_signals(query, gallery, found, by_means=found, learned=True)
    assert float(signals["query_var"]) == 0.25
    assert float(signals["pair_var"]) == 0.75


def test_points_have_only_what_distances_tell():
    query = gaussians([[0.0]], [1e-8])
    gallery = gaussians([[float(x)] for x in range(1, 21)], [1e-8] * 20)
    found = neighbours("means", query, gallery, DEPTH)
    signals = uncertainty_signals(query, gallery, found, by_means=found, learned=False)
    assert {name: float(value) for name, value in signals.items()} == pytest.approx(
        {
            "nearest_distance": 1.0,
            "ratio_1_2": 1 / 4,
            "ratio_1_10": 1 / 100,
            "ratio_1_20": 1 / 400,
            "nearest_cosine": 1.0,
        }
    )


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_the_cosine_is_that_of_the_nearest_mean(family: str, draw):
    query, gallery = getattr(draw, family)(9, 5), getattr(draw, family)(30, 5)
    found = neighbours("means", query, gallery, 1)
    signals = uncertainty_signals(query, gallery, found, by_means=found, learned=False)
    nearest = gallery.mean[found.rows[:, 0]].to(F64)
    wanted = 1 - torch.cosine_similarity(query.mean.to(F64), nearest)
    torch.testing.assert_close(signals["nearest_cosine"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_free_signals_hold_no_learned_variance_whatever_the_ranking(family: str, draw):
    query, gallery = getattr(draw, family)(9, 5), getattr(draw, family)(30, 5)
    near = neighbours("means", query, gallery, DEPTH)
    expected = neighbours("expected", query, gallery, DEPTH)
    by_means, by_expected = (
        uncertainty_signals(query, gallery, found, by_means=near, learned=True)
        for found in (near, expected)
    )
    for name in TRAINING_FREE:
        assert torch.equal(by_means[name], by_expected[name]), name
    assert not torch.equal(by_means["pair_var"], by_expected["pair_var"])  # of another top hit


def test_duplicates_cannot_be_told_apart():
    query = gaussians([[0.0]], [1e-8])
    gallery = gaussians([[0.0], [0.0]], [1e-8] * 2)
    found = neighbours("means", query, gallery, 2)
    signals = uncertainty_signals(query, gallery, found, by_means=found, learned=False)
    assert float(signals["ratio_1_2"]) == 1.0


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_the_expected_ranking_is_that_of_all_expected_distances(family: str, draw):
    query, gallery = getattr(draw, family)(9, 5), getattr(draw, family)(30, 5)
    found = neighbours("expected", query, gallery, 30)
    wanted, order = sf.functional.expected_distance(query, gallery).sort(dim=1)
    torch.testing.assert_close(found.distance.to(F64), wanted.to(F64), rtol=1e-5, atol=1e-5)
    assert (found.rows == order).float().mean() > 0.99  # float32 may swap the closest of them
