"""Uncertainty signals, from embeddings small enough to work out by hand."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import surefind as sf
from surefind.functional import distance_variance
from surefind.reports.signals import (
    DEPTH,
    TRAINING_FREE,
    Signals,
    crossfit_probability,
    neighbours,
    uncertainty_signals,
)

F64 = torch.float64


def gaussians(means: list[list[float]], var: list[float]) -> sf.Gaussians:
    return sf.Gaussians(torch.tensor(means), torch.tensor(var))


def signals_of(query: sf.Embeddings, gallery: sf.Embeddings, *, learned: bool = False) -> Signals:
    found = neighbours("means", query, gallery, DEPTH)
    return uncertainty_signals(query, gallery, found, by_means=found, learned=learned)


def test_signals_of_gaussians_are_their_definitions():
    query = gaussians([[0.0, 0.0]], [0.5])
    gallery = gaussians([[3.0, 0.0], [1.0, 0.0]], [0.1, 0.25])
    signals = signals_of(query, gallery, learned=True)
    assert {name: round(float(value), 6) for name, value in signals.items()} == {
        "query_var": 0.5,
        "pair_var": 0.75,
        "distance_std": round(float(distance_variance(query, gallery)[0, 1].sqrt()), 6),
        "nearest_distance": 1.0,
        "ratio_1_2": round(1 / 9, 6),
        "nearest_cosine": 1.0,  # the query is the origin: it has no direction
    }


def test_points_have_only_training_free_signals_and_the_ratio_of_duplicates_is_one():
    query = gaussians([[0.0]], [1e-8])
    gallery = gaussians([[float(x)] for x in range(1, 21)], [1e-8] * 20)
    ratios = {"ratio_1_2": 1 / 4, "ratio_1_10": 1 / 100, "ratio_1_20": 1 / 400}
    wanted = {"nearest_distance": 1.0, **ratios, "nearest_cosine": 1.0}
    assert {name: float(value) for name, value in signals_of(query, gallery).items()} == pytest.approx(wanted)
    twins = gaussians([[0.0], [0.0]], [1e-8] * 2)
    assert float(signals_of(twins[:1], twins)["ratio_1_2"]) == 1.0


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_the_cosine_is_that_of_the_nearest_mean(family: str, draw):
    query, gallery = getattr(draw, family)(9, 5), getattr(draw, family)(30, 5)
    nearest = gallery.mean[neighbours("means", query, gallery, 1).rows[:, 0]].to(F64)
    wanted = 1 - torch.cosine_similarity(query.mean.to(F64), nearest)
    torch.testing.assert_close(signals_of(query, gallery)["nearest_cosine"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_free_signals_hold_no_learned_variance_whatever_the_ranking(family: str, draw):
    query, gallery = getattr(draw, family)(9, 5), getattr(draw, family)(30, 5)
    near = neighbours("means", query, gallery, DEPTH)
    expected = neighbours("expected", query, gallery, DEPTH)
    by_means, by_expected = (
        uncertainty_signals(query, gallery, found, by_means=near, learned=True) for found in (near, expected)
    )
    for name in TRAINING_FREE:
        assert torch.equal(by_means[name], by_expected[name]), name
    assert not torch.equal(by_means["pair_var"], by_expected["pair_var"])  # of another top hit


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_the_expected_ranking_is_that_of_all_expected_distances(family: str, draw):
    query, gallery = getattr(draw, family)(9, 5), getattr(draw, family)(30, 5)
    found = neighbours("expected", query, gallery, 30)
    wanted, order = sf.functional.expected_distance(query, gallery).sort(dim=1)
    torch.testing.assert_close(found.distance.to(F64), wanted.to(F64), rtol=1e-5, atol=1e-5)
    assert (found.rows == order).float().mean() > 0.99  # float32 may swap the closest of them


def made_up(n: int = 2000, seed: int = 0):
    random = np.random.default_rng(seed)
    uncertainty = random.random(n)
    correct = random.random(n) > uncertainty
    return uncertainty, correct, random.integers(0, 20, n)


def test_probabilities_come_true():
    uncertainty, correct, groups = made_up()
    probability = crossfit_probability(uncertainty, correct, groups)
    for low in (0.1, 0.4, 0.7):
        told = (probability > low) & (probability < low + 0.2)
        assert correct[told].mean() == pytest.approx(probability[told].mean(), abs=0.07)


def test_a_monotone_map_of_the_uncertainty_changes_nothing():
    uncertainty, correct, groups = made_up()
    np.testing.assert_allclose(
        crossfit_probability(uncertainty, correct, groups),
        crossfit_probability(np.exp(9 * uncertainty), correct, groups),
    )


def test_a_query_has_no_part_in_its_own_probability():
    uncertainty, correct, groups = made_up(200)
    first = crossfit_probability(uncertainty, correct, groups)
    mine = groups == groups[0]
    flipped = np.where(mine, ~correct, correct)
    np.testing.assert_array_equal(crossfit_probability(uncertainty, flipped, groups)[mine], first[mine])


def test_a_fit_that_saw_only_right_queries_leaves_some_doubt_and_one_group_has_no_fit():
    uncertainty, correct, groups = made_up(200)
    probability = crossfit_probability(uncertainty, np.ones(200, dtype=bool), groups)
    assert ((probability > 0.99) & (probability < 1)).all()
    assert np.isnan(crossfit_probability(uncertainty, correct, np.zeros(200))).all()


@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_platt_scaling_is_the_maximum_likelihood_fit_of_a_line(scale: float):
    """However narrow the range of a cosine is; two groups, so that each is judged by the other."""
    random = np.random.default_rng(0)
    line = random.normal(size=4000)
    correct = random.random(4000) < 1 / (1 + np.exp(-(0.5 - 2 * line)))
    groups = np.arange(4000) % 2
    uncertainty = 3 + scale * line
    ours = crossfit_probability(uncertainty, correct, groups, platt=True)

    def loss(parameters: np.ndarray, rows: np.ndarray) -> float:
        logit = parameters[0] + parameters[1] * line[rows]
        return float(np.logaddexp(0, np.where(correct[rows], -logit, logit)).sum())

    for group in (0, 1):
        best = minimize(loss, np.zeros(2), args=(groups != group,)).x
        wanted = 1 / (1 + np.exp(-(best[0] + best[1] * line[groups == group])))
        np.testing.assert_allclose(ours[groups == group], wanted, atol=2e-3)
