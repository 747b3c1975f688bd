"""A last correction of probabilities: monotone, and it repairs what is known to be wrong."""

import numpy as np
import pytest

from surefind.search.confidence.match_model import (
    EDGE,
    Recalibration,
    fit_recalibration,
)

GRID = np.linspace(0, 1, 501)


def distorted(count=20_000, *, power=2.0, seed=0):
    """What is called p^power comes true in a share p of cases."""
    random = np.random.default_rng(seed)
    true = random.uniform(0.02, 0.98, count)
    return true**power, random.random(count) < true


@pytest.mark.parametrize("power", [0.5, 2.0])
def test_a_known_distortion_is_repaired(power):
    fitted = fit_recalibration(*distorted(power=power))
    said = np.linspace(0.05, 0.95, 19)
    assert np.abs(said**power - said).max() > 0.2
    assert fitted(said**power) == pytest.approx(said, abs=0.04)


@pytest.mark.parametrize("count", [30, 3000])
def test_it_is_monotone_and_never_certain(count):
    mapped = fit_recalibration(*distorted(count))(GRID)
    assert (np.diff(mapped) >= 0).all()
    assert mapped.min() >= EDGE
    assert mapped.max() <= 1 - EDGE


def test_probabilities_that_say_the_opposite_are_not_turned_around():
    random = np.random.default_rng(1)
    said = random.random(2000)
    fitted = fit_recalibration(said, random.random(2000) > said)
    assert (np.diff(fitted(GRID)) >= 0).all()
    assert fitted(np.array([0.5])) == pytest.approx(0.5, abs=0.1)


def test_good_probabilities_are_left_nearly_as_they_are():
    fitted = fit_recalibration(*distorted(power=1.0))
    inner = np.linspace(0.05, 0.95, 50)
    assert fitted(inner) == pytest.approx(inner, abs=0.05)


def test_beta_is_the_curve_that_the_paper_states():
    """logit p' is linear in log p and log(1 - p): three points tell where all others are."""
    fitted = fit_recalibration(*distorted())
    at = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    columns = np.stack([np.log(at), -np.log1p(-at), np.ones(5)], axis=1)
    logit = np.log(fitted(at)) - np.log1p(-fitted(at))
    weights = np.linalg.solve(columns[[0, 2, 4]], logit[[0, 2, 4]])
    assert columns @ weights == pytest.approx(logit, abs=0.01)
    assert weights[0] >= 0
    assert weights[1] >= 0


@pytest.mark.parametrize("always", [True, False])
def test_where_nothing_differs_nothing_is_changed(always):
    said = np.random.default_rng(2).random(100)
    fitted = fit_recalibration(said, np.full(100, always))
    assert fitted == Recalibration((), ())


def test_certain_probabilities_are_allowed_and_stay_finite():
    said = np.array([0.0, 0.0, 1.0, 1.0] * 20)
    match = np.array([False, False, True, False] * 20)
    mapped = fit_recalibration(said, match)(np.array([0.0, 0.5, 1.0]))
    assert np.isfinite(mapped).all()
    assert mapped[0] < 0.05
