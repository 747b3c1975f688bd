"""From evidence to confidence: honest across classes, calibrated, better than a distance."""

import numpy as np
import pytest
import torch
from clusters import clusters, observed_clusters

from surefind import metrics
from surefind.search.confidence.calibrate import columns_of
from surefind.search.confidence.evidence import COLUMNS
from surefind.search.confidence.labelled_queries import Observed
from surefind.search.confidence.match_model import FOLDS, fit_confidence


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> Observed:
    return observed_clusters(tmp_path_factory.mktemp("few") / "store", *clusters())


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Observed:
    drawn = clusters(classes=150, seed=4)
    return observed_clusters(tmp_path_factory.mktemp("many") / "store", *drawn)


def fitted(observed: Observed, **options):
    options = {"names": columns_of(observed.seen)} | options
    return fit_confidence(observed.seen, observed.match, observed.fold, **options)


def halves(observed: Observed) -> tuple[Observed, Observed]:
    """Queries of some classes, and those of all others."""
    rows = [np.flatnonzero(observed.groups % 2 == half) for half in (0, 1)]
    known, fresh = (
        Observed(
            observed.seen.at(its),
            observed.match[its],
            observed.groups[its],
            observed.belongs[its],
            observed.gallery,
        )
        for its in rows
    )
    return known, fresh


def ece(confidence, match) -> float:
    sure = torch.from_numpy(confidence.reshape(-1))
    true = torch.from_numpy(match.reshape(-1)).double()
    return float(metrics.expected_calibration_error(sure, true, definition="probability"))


def auroc_of_wrong(strange, match) -> float:
    return float(metrics.auroc(torch.from_numpy(strange), torch.from_numpy(~match)))


def test_the_clusters_are_neither_easy_nor_hard(few, many):
    """What the other tests rest on."""
    assert 0.6 < few.match[:, 0].mean() < 0.8
    assert 0.4 < many.match[:, 0].mean() < 0.8


@pytest.mark.parametrize("group", [0, 7])
def test_what_is_said_of_a_class_does_not_depend_on_its_own_labels(few, group):
    own = few.groups == group
    turned = few._replace(match=np.where(own[:, None], ~few.match, few.match))
    before = fitted(few).confidence
    after = fitted(turned).confidence
    assert np.array_equal(before[own], after[own])
    assert not np.allclose(before[~own], after[~own])


def test_no_label_of_a_fold_influences_any_confidence_of_that_fold(few):
    drawn = np.random.default_rng(0).random(few.match.shape) < 0.5
    plain = fitted(few)
    for fold in range(FOLDS):
        own = few.fold == fold
        other = fitted(few._replace(match=np.where(own[:, None], drawn, few.match)))
        assert np.array_equal(plain.confidence[own], other.confidence[own])


def test_the_model_of_all_queries_does_depend_on_every_class(few):
    own = few.groups == 0
    turned = few._replace(match=np.where(own[:, None], ~few.match, few.match))
    model, other = (fitted(some).model.confidence(few.seen)[own] for some in (few, turned))
    assert not np.allclose(model, other)


def test_it_is_calibrated_on_classes_it_never_saw(many):
    known, fresh = halves(many)
    confidence = fitted(known).model.confidence(fresh.seen)
    assert ece(confidence[:, 0], fresh.match[:, 0]) < 0.06
    assert ece(confidence[:, 1:], fresh.match[:, 1:]) < 0.06
    assert confidence[:, 0].std() > 0.15  # not by saying the same of all


def test_it_finds_wrong_answers_better_than_the_distance_where_density_matters(many):
    known, fresh = halves(many)
    wrong = fresh.match[:, 0]
    confidence = fitted(known).model.confidence(fresh.seen)[:, 0]
    by_distance = auroc_of_wrong(fresh.seen.distance[:, 0], wrong)
    alone = fitted(known, names=("distance",)).model.confidence(fresh.seen)[:, 0]
    assert auroc_of_wrong(-confidence, wrong) > by_distance + 0.15
    assert auroc_of_wrong(-confidence, wrong) > auroc_of_wrong(-alone, wrong) + 0.15


def test_no_column_speaks_against_its_direction(few, many):
    for observed in (few, many):
        model = fitted(observed).model
        for one in (model.first, model.later):
            for name, weight in zip(model.names, one.weights, strict=True):
                assert weight * COLUMNS[name].direction >= 0, name


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_a_hit_farther_away_is_never_surer_all_else_being_equal(few, share):
    """As far as the next neighbour: beyond it, it would not be the same hit."""
    seen = few.seen
    behind = np.concatenate([seen.profile[:, 1:], seen.profile[:, -1:]], axis=1)
    moved = seen._replace(distance=seen.distance + share * (behind - seen.distance))
    model = fitted(few).model
    before, after = model.confidence(seen), model.confidence(moved)
    assert (after <= before + 1e-12).all()
    assert (after < before).any()


def test_more_neighbours_in_common_never_make_a_hit_less_sure(few):
    nearer = few.seen._replace(between=few.seen.between * 0.5)  # alike stays as it is
    model = fitted(few, names=("distance", "shared_5", "shared_10", "shared_20")).model
    assert (model.confidence(nearer) >= model.confidence(few.seen) - 1e-12).all()


def test_the_first_hit_is_judged_apart_from_those_behind_it(few):
    later = few._replace(match=few.match.copy())
    later.match[:, 1:] = ~later.match[:, 1:]
    one, other = (fitted(some).model for some in (few, later))
    assert one.first == other.first
    assert one.later != other.later


def test_classes_fewer_than_folds_are_left_out_one_by_one(few):
    rows = np.flatnonzero(few.groups < 4)
    some = Observed(few.seen.at(rows), few.match[rows], few.groups[rows], few.belongs[rows], 288)
    confidence = fitted(some).confidence
    assert confidence.shape == some.match.shape
    assert ((confidence > 0) & (confidence < 1)).all()
