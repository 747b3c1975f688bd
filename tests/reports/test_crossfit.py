"""Probabilities that no query had a part in fitting."""

import numpy as np
import pytest
from scipy.optimize import minimize

from surefind.reports.signals import crossfit_probability


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
    np.testing.assert_array_equal(
        crossfit_probability(uncertainty, flipped, groups)[mine], first[mine]
    )


def test_queries_that_are_all_right_still_leave_some_doubt():
    uncertainty, _, groups = made_up(200)
    probability = crossfit_probability(uncertainty, np.ones(200, dtype=bool), groups)
    assert ((probability > 0.99) & (probability < 1)).all()


def test_with_one_group_nobody_is_left_to_fit_to():
    uncertainty, correct, _ = made_up(50)
    assert np.isnan(crossfit_probability(uncertainty, correct, np.zeros(50))).all()


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
