"""The logistic model: as sklearn's where nothing binds, and never against a direction."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from surefind.search.confidence.match_model import Logistic, fit_logistic


def drawn(weights, *, count=800, seed=0):
    """Columns on several scales, and matches that follow these weights."""
    random = np.random.default_rng(seed)
    columns = random.normal(size=(count, len(weights)))
    chance = 1 / (1 + np.exp(-(columns @ np.array(weights) + 0.3)))
    match = random.random(count) < chance
    return columns * np.geomspace(1, 100, len(weights)) + 5, match


@pytest.mark.parametrize("penalty", [0.01, 1.0, 10.0])
def test_it_is_the_fit_of_sklearn_where_no_direction_binds(penalty):
    columns, match = drawn([1.0, -0.7, 0.4])
    found = fit_logistic(columns, match, directions=(1, -1, 0), penalty=penalty)
    standard = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    other = LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=1000).fit(standard, match)
    assert found.weights == pytest.approx(other.coef_[0], abs=1e-3)
    assert found.bias == pytest.approx(other.intercept_[0], abs=1e-3)
    assert found.probability(columns) == pytest.approx(
        other.predict_proba(standard)[:, 1], abs=1e-3
    )


def test_a_probability_is_what_the_equation_says():
    model = Logistic((1.0, 2.0), (0.5, 4.0), (0.7, -0.2), bias=0.1)
    z = 0.1 + 0.7 * (3 - 1) / 0.5 - 0.2 * (6 - 2) / 4
    assert model.probability(np.array([[[3.0, 6.0]]]))[0, 0] == pytest.approx(1 / (1 + np.exp(-z)))


@pytest.mark.parametrize(("true", "direction"), [(1.0, -1), (-1.0, 1)])
def test_a_column_that_speaks_the_wrong_way_is_not_heard(true, direction):
    columns, match = drawn([true, 0.8])
    assert fit_logistic(columns, match, directions=(0, 0)).weights[0] * true > 0.3
    bound = fit_logistic(columns, match, directions=(direction, 0))
    assert bound.weights[0] == 0
    assert bound.weights[1] > 0.3


def test_where_a_direction_binds_no_allowed_weights_are_better():
    columns, match = drawn([1.0, 0.8, -0.5], count=200)
    found = fit_logistic(columns, match, directions=(-1, 1, 0), penalty=1.0)

    def cost(weights, bias):
        chance = Logistic(found.centre, found.scale, tuple(weights), bias).probability(columns)
        return -np.log(np.where(match, chance, 1 - chance)).sum() + np.square(weights).sum() / 2

    best, random = cost(found.weights, found.bias), np.random.default_rng(1)
    for _ in range(300):
        weights = np.array(found.weights) + random.normal(scale=0.05, size=3)
        weights[0], weights[1] = min(weights[0], 0), max(weights[1], 0)
        assert cost(weights, found.bias + random.normal(scale=0.05)) >= best - 1e-6


def test_a_column_that_does_not_vary_gets_no_weight():
    columns, match = drawn([1.0, 0.0])
    columns[:, 1] = 7.0
    found = fit_logistic(columns, match, directions=(1, 1))
    assert found.weights[1] == 0
    assert np.isfinite(found.probability(columns + 3)).all()


def test_a_separable_problem_stays_finite():
    columns = np.linspace(-1, 1, 60)[:, None]
    found = fit_logistic(columns, columns[:, 0] > 0, directions=(1,))
    assert 0 < found.weights[0] < 10
    assert found.probability(columns)[-1] > 0.85 > 0.15 > found.probability(columns)[0]


@pytest.mark.parametrize("always", [True, False])
def test_where_all_are_right_or_all_wrong_it_says_so_and_stays_finite(always):
    columns, match = drawn([1.0, 0.5], count=100)
    found = fit_logistic(columns, np.full(len(match), always), directions=(1, 0))
    chance = found.probability(columns)
    assert np.isfinite(found.bias)
    assert (chance > 0.99).all() if always else (chance < 0.01).all()


def test_the_mean_probability_is_the_share_of_matches():
    """The bias is not penalised: what is said is right on average."""
    columns, match = drawn([1.0, -0.7, 0.4])
    found = fit_logistic(columns, match, directions=(1, 1, 1))
    assert found.probability(columns).mean() == pytest.approx(match.mean(), abs=1e-4)
