"""Quality of a confidence: within folds, debiased."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from calibrations import make_calibration
from sklearn.metrics import roc_auc_score

from surefind.confidence.calibrate import columns_of, curve_of, distance_ratio, quality_of
from surefind.confidence.calibration import Curve
from surefind.confidence.match_model import fit_confidence
from surefind.metrics import calibration_floor, debiased_calibration_error


@pytest.fixture(scope="module")
def curve(few) -> Curve:
    names = columns_of(few.neighbourhood)
    _, confidence = fit_confidence(few.neighbourhood, few.match, few.fold, names=names)
    sure, right = confidence.max(axis=1), few.match[np.arange(len(few.match)), confidence.argmax(1)]
    return curve_of(sure, right, few.match, few.neighbourhood.distance, few.fold)


def mean_within(uncertainty: np.ndarray, right: tuple[bool, ...], curve: Curve) -> float:
    wrong, fold = ~np.array(right), np.array(curve.fold)
    return float(np.mean([roc_auc_score(wrong[fold == f], uncertainty[fold == f]) for f in np.unique(fold)]))


def test_every_auroc_is_the_mean_over_the_folds(few, curve):
    vote = (np.random.default_rng(0).normal(size=len(few.fold)), few.match[:, 3])
    quality = quality_of(curve, few.neighbourhood.profile, vote)
    sure = -np.array(curve.confidence)
    nearest, far = few.neighbourhood.profile[:, 0], few.neighbourhood.profile[:, 19]
    for found, uncertainty, right in (
        (quality.auroc, sure, curve.right),
        (quality.baseline_auroc, nearest, curve.baseline_right),
        (quality.ratio_auroc, nearest / far, curve.baseline_right),
        (quality.vote_auroc, *vote),
    ):
        assert found == pytest.approx(mean_within(uncertainty, right, curve))


def test_the_first_hit_is_the_surest_and_the_baseline_the_nearest(few, curve):
    assert curve.right != curve.baseline_right == tuple(few.match[:, 0].tolist())
    quality = quality_of(curve, few.neighbourhood.profile)
    assert quality.right == pytest.approx(np.mean(curve.right))
    assert quality.nearest_right == pytest.approx(few.match[:, 0].mean())


def test_a_distance_that_ranks_well_in_every_fold_is_not_spoilt_by_pooling(few, curve):
    """As the calibrated distance was: each fold has a map of its own."""
    right, fold = np.array(curve.right), np.array(curve.fold)
    noise = np.random.default_rng(0).normal(size=len(right))
    shifted = 1 / (1 + np.exp(-(2 * right + noise + 3 * fold)))
    pooled = roc_auc_score(right, shifted)
    moved = replace(curve, confidence=tuple(shifted))
    found = quality_of(moved, few.neighbourhood.profile).auroc
    assert found == pytest.approx(mean_within(-shifted, curve.right, curve))
    assert found > pooled + 0.1


def test_calibration_errors_are_debiased_and_have_their_floors(few, curve):
    quality = quality_of(curve, few.neighbourhood.profile)
    for said, right, ece, floor in (
        (curve.confidence, curve.right, quality.ece, quality.floor),
        (curve.baseline, curve.baseline_right, quality.baseline_ece, quality.baseline_floor),
    ):
        sure = torch.tensor(said, dtype=torch.float64)
        assert ece == debiased_calibration_error(sure, torch.tensor(right))
        assert floor == calibration_floor(sure)


def test_without_a_fold_of_both_kinds_there_is_no_auroc(few, curve):
    alike = tuple((np.array(curve.fold) % 2 == 0).tolist())
    one_kind = replace(curve, right=alike, baseline_right=alike)
    quality = quality_of(one_kind, few.neighbourhood.profile)
    assert (quality.auroc, quality.baseline_auroc, quality.ratio_auroc) == (None, None, None)
    assert quality.vote_auroc is None


def test_copies_have_a_ratio_of_one(few):
    assert (distance_ratio(np.zeros_like(few.neighbourhood.profile)) == 1).all()


def test_a_calibration_is_described_in_one_line_and_a_small_table():
    calibration = make_calibration()
    assert repr(calibration) == (
        "Calibration(evidence=neighbourhoods, queries=812, classes=40, precision=95% guaranteed, "
        "threshold=0.83, auroc=0.866, ece=0.029)"
    )
    assert len(calibration._repr_html_()) < 600


def test_judging_does_not_load_what_fits():
    fitting = ("confidence.calibrate", "confidence.labelled_queries", "losses", "metrics")
    heavy = ("scipy.optimize", "scipy.spatial", "scipy.stats", "sklearn")
    names = [*(f"surefind.{name}" for name in fitting), *heavy]
    code = f"import sys, surefind.confidence.calibration; print(sys.modules.keys() & {names})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
