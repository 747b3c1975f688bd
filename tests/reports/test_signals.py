"""Uncertainty signals, from embeddings small enough to work out by hand."""

import pytest
import torch

import surefind as sf
from surefind.functional import distance_variance
from surefind.reports.ranking import neighbours
from surefind.reports.signals import uncertainty_signals

F64 = torch.float64


def gaussians(means: list[list[float]], var: list[float]) -> sf.Gaussians:
    return sf.Gaussians(torch.tensor(means), torch.tensor(var))


def test_signals_of_gaussians_are_their_definitions():
    query = gaussians([[0.0, 0.0]], [0.5])
    gallery = gaussians([[3.0, 0.0], [1.0, 0.0]], [0.1, 0.25])
    found = neighbours("means", query, gallery, 2)
    signals = uncertainty_signals(query, gallery, found, learned=True)
    assert {name: round(float(value), 6) for name, value in signals.items()} == {
        "query_var": 0.5,
        "pair_var": 0.75,
        "distance_std": round(float(distance_variance(query, gallery)[0, 1].sqrt()), 6),
        "nearest_distance": 1.0,
        "ratio_1_2": round(1 / 9, 6),
    }


def test_on_the_sphere_the_variance_is_one_over_kappa():
    query = sf.VonMisesFisher(torch.tensor([[1.0, 0.0]]), torch.tensor([4.0]))
    gallery = sf.VonMisesFisher(torch.tensor([[0.0, 1.0]]), torch.tensor([2.0]))
    found = neighbours("means", query, gallery, 1)
    signals = uncertainty_signals(query, gallery, found, learned=True)
    assert float(signals["query_var"]) == 0.25
    assert float(signals["pair_var"]) == 0.75


def test_points_have_only_what_distances_tell():
    query = gaussians([[0.0]], [1e-8])
    gallery = gaussians([[float(x)] for x in range(1, 11)], [1e-8] * 10)
    found = neighbours("means", query, gallery, 10)
    signals = uncertainty_signals(query, gallery, found, learned=False)
    assert {name: float(value) for name, value in signals.items()} == pytest.approx(
        {"nearest_distance": 1.0, "ratio_1_2": 0.25, "ratio_1_10": 0.01}
    )


def test_duplicates_cannot_be_told_apart():
    query = gaussians([[0.0]], [1e-8])
    gallery = gaussians([[0.0], [0.0]], [1e-8] * 2)
    found = neighbours("means", query, gallery, 2)
    signals = uncertainty_signals(query, gallery, found, learned=False)
    assert float(signals["ratio_1_2"]) == 1.0


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_the_expected_ranking_is_that_of_all_expected_distances(family: str, draw):
    query, gallery = getattr(draw, family)(9, 5), getattr(draw, family)(30, 5)
    found = neighbours("expected", query, gallery, 30)
    wanted, order = sf.functional.expected_distance(query, gallery).sort(dim=1)
    torch.testing.assert_close(found.distance.to(F64), wanted.to(F64), rtol=1e-5, atol=1e-5)
    assert (found.rows == order).float().mean() > 0.99  # float32 may swap the closest of them
