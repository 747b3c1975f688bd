"""Quality of a confidence: within folds, debiased."""

import numpy as np
import pytest
import torch
from clusters import cluster_data, clusters
from sklearn.metrics import roc_auc_score

from surefind.confidence.calibrate import columns_of, curve_of
from surefind.confidence.calibration import Curve, distance_ratio, quality_of
from surefind.confidence.labelled_queries import CalibrationData
from surefind.confidence.match_model import fit_confidence
from surefind.metrics import calibration_floor, debiased_calibration_error


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> CalibrationData:
    return cluster_data(tmp_path_factory.mktemp("data") / "store", *clusters())


@pytest.fixture(scope="module")
def curve(data) -> Curve:
    names = columns_of(data.neighbourhood)
    _, confidence = fit_confidence(data.neighbourhood, data.match, data.fold, names=names)
    return curve_of(confidence, data)


def mean_within(uncertainty: np.ndarray, curve: Curve) -> float:
    wrong, fold = ~np.array(curve.right), np.array(curve.fold)
    return float(
        np.mean([roc_auc_score(wrong[fold == f], uncertainty[fold == f]) for f in np.unique(fold)])
    )


def test_every_auroc_is_the_mean_over_the_folds(data, curve):
    quality = quality_of(curve, data.neighbourhood)
    assert quality.auroc == pytest.approx(mean_within(-np.array(curve.confidence), curve))
    nearest, far = data.neighbourhood.profile[:, 0], data.neighbourhood.profile[:, 19]
    assert quality.baseline_auroc == pytest.approx(mean_within(nearest, curve))
    assert quality.ratio_auroc == pytest.approx(mean_within(nearest / far, curve))


def test_a_distance_that_ranks_well_in_every_fold_is_not_spoilt_by_pooling(data, curve):
    """As the calibrated distance was: each fold has a map of its own."""
    right, fold = np.array(curve.right), np.array(curve.fold)
    noise = np.random.default_rng(0).normal(size=len(right))
    shifted = 1 / (1 + np.exp(-(2 * right + noise + 3 * fold)))
    pooled = roc_auc_score(right, shifted)
    moved = Curve(tuple(shifted), curve.baseline, curve.right, curve.fold)
    found = quality_of(moved, data.neighbourhood).auroc
    assert found == pytest.approx(mean_within(-shifted, curve))
    assert found > pooled + 0.1


def test_calibration_errors_are_debiased_and_have_their_floors(data, curve):
    quality, right = quality_of(curve, data.neighbourhood), torch.tensor(curve.right)
    for said, ece, floor in (
        (curve.confidence, quality.ece, quality.floor),
        (curve.baseline, quality.baseline_ece, quality.baseline_floor),
    ):
        sure = torch.tensor(said, dtype=torch.float64)
        assert ece == debiased_calibration_error(sure, right)
        assert floor == calibration_floor(sure)


def test_without_a_fold_of_both_kinds_there_is_no_auroc(data, curve):
    alike = np.array(curve.fold) % 2 == 0
    one_kind = Curve(curve.confidence, curve.baseline, tuple(alike.tolist()), curve.fold)
    quality = quality_of(one_kind, data.neighbourhood)
    assert (quality.auroc, quality.baseline_auroc, quality.ratio_auroc) == (None, None, None)


def test_copies_have_a_ratio_of_one(data):
    copies = data.neighbourhood._replace(
        distance=np.zeros_like(data.neighbourhood.distance),
        profile=np.zeros_like(data.neighbourhood.profile),
    )
    assert (distance_ratio(copies) == 1).all()
