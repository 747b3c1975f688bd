"""Quality of a confidence: within folds, debiased."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from surefind.confidence.calibrate import columns_of, curve_of
from surefind.confidence.calibration import Curve, distance_ratio, quality_of
from surefind.confidence.match_model import fit_confidence
from surefind.metrics import calibration_floor, debiased_calibration_error


@pytest.fixture(scope="module")
def curve(few) -> Curve:
    names = columns_of(few.neighbourhood)
    _, confidence = fit_confidence(few.neighbourhood, few.match, few.fold, names=names)
    return curve_of(confidence, few)


def mean_within(uncertainty: np.ndarray, curve: Curve) -> float:
    wrong, fold = ~np.array(curve.right), np.array(curve.fold)
    return float(
        np.mean([roc_auc_score(wrong[fold == f], uncertainty[fold == f]) for f in np.unique(fold)])
    )


def test_every_auroc_is_the_mean_over_the_folds(few, curve):
    quality = quality_of(curve, few.neighbourhood)
    assert quality.auroc == pytest.approx(mean_within(-np.array(curve.confidence), curve))
    nearest, far = few.neighbourhood.profile[:, 0], few.neighbourhood.profile[:, 19]
    assert quality.baseline_auroc == pytest.approx(mean_within(nearest, curve))
    assert quality.ratio_auroc == pytest.approx(mean_within(nearest / far, curve))


def test_a_distance_that_ranks_well_in_every_fold_is_not_spoilt_by_pooling(few, curve):
    """As the calibrated distance was: each fold has a map of its own."""
    right, fold = np.array(curve.right), np.array(curve.fold)
    noise = np.random.default_rng(0).normal(size=len(right))
    shifted = 1 / (1 + np.exp(-(2 * right + noise + 3 * fold)))
    pooled = roc_auc_score(right, shifted)
    moved = Curve(tuple(shifted), curve.baseline, curve.right, curve.fold)
    found = quality_of(moved, few.neighbourhood).auroc
    assert found == pytest.approx(mean_within(-shifted, curve))
    assert found > pooled + 0.1


def test_calibration_errors_are_debiased_and_have_their_floors(few, curve):
    quality, right = quality_of(curve, few.neighbourhood), torch.tensor(curve.right)
    for said, ece, floor in (
        (curve.confidence, quality.ece, quality.floor),
        (curve.baseline, quality.baseline_ece, quality.baseline_floor),
    ):
        sure = torch.tensor(said, dtype=torch.float64)
        assert ece == debiased_calibration_error(sure, right)
        assert floor == calibration_floor(sure)


def test_without_a_fold_of_both_kinds_there_is_no_auroc(few, curve):
    alike = np.array(curve.fold) % 2 == 0
    one_kind = Curve(curve.confidence, curve.baseline, tuple(alike.tolist()), curve.fold)
    quality = quality_of(one_kind, few.neighbourhood)
    assert (quality.auroc, quality.baseline_auroc, quality.ratio_auroc) == (None, None, None)


def test_copies_have_a_ratio_of_one(few):
    copies = few.neighbourhood._replace(
        distance=np.zeros_like(few.neighbourhood.distance),
        profile=np.zeros_like(few.neighbourhood.profile),
    )
    assert (distance_ratio(copies) == 1).all()
