"""From evidence to confidence: logistic model, recalibration, honest across classes."""

import numpy as np
import pytest
import torch
from clusters import cluster_data, clusters, some_of
from sklearn.linear_model import LogisticRegression

from surefind import metrics
from surefind.confidence.calibrate import columns_of
from surefind.confidence.evidence import COLUMNS, evidence
from surefind.confidence.labelled_queries import CalibrationData
from surefind.confidence.match_model import (
    EDGE,
    FOLDS,
    Logistic,
    Recalibration,
    fit_confidence,
    fit_logistic,
    fit_recalibration,
)


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
    assert found.probability(columns) == pytest.approx(other.predict_proba(standard)[:, 1], abs=1e-3)


@pytest.mark.parametrize(("true", "direction"), [(1.0, -1), (-1.0, 1)])
def test_a_column_with_the_wrong_sign_gets_no_weight(true, direction):
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


GRID = np.linspace(0, 1, 501)


def distorted(count=20_000, *, power=2.0, seed=0):
    """What is called p^power comes true in a share p of cases."""
    random = np.random.default_rng(seed)
    true = random.uniform(0.02, 0.98, count)
    return true**power, random.random(count) < true


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_a_known_distortion_is_repaired(power):
    fitted = fit_recalibration(*distorted(power=power))
    said = np.linspace(0.05, 0.95, 19)
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
    assert fitted == Recalibration()
    assert fitted(said) == pytest.approx(np.clip(said, EDGE, 1 - EDGE))


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> CalibrationData:
    drawn = clusters(classes=150, seed=4)
    return cluster_data(tmp_path_factory.mktemp("many") / "store", *drawn)


def fitted(data: CalibrationData, **options):
    options = {"names": columns_of(data.neighbourhood)} | options
    return fit_confidence(data.neighbourhood, data.match, data.fold, **options)


def halves(data: CalibrationData) -> tuple[CalibrationData, CalibrationData]:
    """Queries of some classes, and those of all others."""
    known, fresh = (some_of(data, np.flatnonzero(data.class_codes % 2 == half)) for half in (0, 1))
    return known, fresh


def ece(confidence, match) -> float:
    sure = torch.from_numpy(confidence.reshape(-1))
    true = torch.from_numpy(match.reshape(-1)).double()
    return float(metrics.expected_calibration_error(sure, true, definition="probability"))


def surest(confidence, match):
    """Confidence of the surest hit of each query, and whether it is a match."""
    rows, first = np.arange(len(match)), confidence.argmax(axis=1)
    return confidence[rows, first], match[rows, first]


def auroc_of_wrong(uncertainty, match) -> float:
    return float(metrics.auroc(torch.from_numpy(uncertainty), torch.from_numpy(~match)))


def test_no_label_of_a_fold_influences_any_confidence_of_that_fold(few):
    drawn = np.random.default_rng(0).random(few.match.shape) < 0.5
    _, plain = fitted(few)
    for fold in range(FOLDS):
        own = few.fold == fold
        _, other = fitted(few._replace(match=np.where(own[:, None], drawn, few.match)))
        assert np.array_equal(plain[own], other[own])
        assert not np.allclose(plain[~own], other[~own])


def test_it_is_calibrated_on_classes_it_never_saw(many):
    known, fresh = halves(many)
    confidence = fitted(known)[0].confidence(fresh.neighbourhood)
    assert ece(*surest(confidence, fresh.match)) < 0.06
    assert ece(confidence, fresh.match) < 0.06
    assert confidence.max(axis=1).std() > 0.15  # not by saying the same of all


def test_the_surest_of_many_hits_is_not_overrated(many):
    """Hits that are calibrated one by one are not once the surest of them is chosen."""
    known, fresh = halves(many)
    model = fitted(known)[0]
    columns = evidence(fresh.neighbourhood, model.names)
    later = model.later_map(model.later.probability(columns[:, 1:]))
    assert ece(later, fresh.match[:, 1:]) < 0.06 < ece(*surest(later, fresh.match[:, 1:]))
    confidence = model.confidence(fresh.neighbourhood)
    assert np.array_equal(later.argsort(axis=1, kind="stable"), confidence[:, 1:].argsort(axis=1, kind="stable"))


def test_it_finds_wrong_answers_better_than_the_distance_where_density_matters(many):
    known, fresh = halves(many)
    wrong = fresh.match[:, 0]
    confidence = fitted(known)[0].confidence(fresh.neighbourhood)[:, 0]
    by_distance = auroc_of_wrong(fresh.neighbourhood.distance[:, 0], wrong)
    alone = fitted(known, names=("distance",))[0].confidence(fresh.neighbourhood)[:, 0]
    assert auroc_of_wrong(-confidence, wrong) > by_distance + 0.15
    assert auroc_of_wrong(-confidence, wrong) > auroc_of_wrong(-alone, wrong) + 0.15


def test_no_weight_has_the_wrong_sign(few, many):
    for data in (few, many):
        model = fitted(data)[0]
        for one in (model.first, model.later):
            for name, weight in zip(model.names, one.weights, strict=True):
                assert weight * COLUMNS[name].direction >= 0, name


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_a_hit_farther_away_is_never_surer_all_else_being_equal(few, share):
    """As far as the next neighbour: beyond it, it would not be the same hit."""
    neighbourhood = few.neighbourhood
    behind = np.concatenate([neighbourhood.profile[:, 1:], neighbourhood.profile[:, -1:]], axis=1)
    moved = neighbourhood._replace(distance=neighbourhood.distance + share * (behind - neighbourhood.distance))
    model = fitted(few)[0]
    before, after = model.confidence(neighbourhood), model.confidence(moved)
    assert (after <= before + 1e-12).all()
    assert (after < before).any()


def test_the_first_hit_is_judged_apart_from_those_behind_it(few):
    later = few._replace(match=few.match.copy())
    later.match[:, 1:] = ~later.match[:, 1:]
    one, other = (fitted(some)[0] for some in (few, later))
    assert one.first == other.first
    assert one.later != other.later


def test_classes_fewer_than_folds_are_left_out_one_by_one(few):
    some = some_of(few, np.flatnonzero(few.class_codes < 4))
    _, confidence = fitted(some)
    assert confidence.shape == some.match.shape
    assert ((confidence > 0) & (confidence < 1)).all()
