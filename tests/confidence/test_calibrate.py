"""Fitting a calibration: columns, checks, parts."""

from dataclasses import replace

import numpy as np
import pytest
from calibrations import GUARANTEE, ORIGIN, make_calibration
from clusters import cluster_data, clusters

import surefind as sf
from surefind.confidence.calibrate import CalibrationTargets, columns_of, first_hit_columns, fit_calibration
from surefind.confidence.conformal import novelty_of, novelty_values
from surefind.confidence.evidence import COLUMNS, evidence
from surefind.confidence.guarantee import guarantee_precision
from surefind.confidence.labelled_queries import LEAST_OF_EACH, CalibrationData, check_enough


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> CalibrationData:
    return cluster_data(tmp_path_factory.mktemp("data") / "store", *clusters(vague=True))


@pytest.fixture(scope="module")
def calibration(data):
    return fit_calibration(data, ORIGIN, CalibrationTargets(precision=0.7))


def sources_of(neighbourhood) -> set[str]:
    return {COLUMNS[name].source for name in columns_of(neighbourhood)}


def test_only_columns_that_can_say_anything_are_used(data):
    always = {"distances", "density", "overlap"}
    assert sources_of(data.neighbourhood) == always | {"variance"}
    constant = data.neighbourhood._replace(query_var=np.full(len(data.match), 0.3))
    assert sources_of(constant) == always
    log_var = np.random.default_rng(0).normal(size=len(data.match))
    assert sources_of(constant._replace(log_var=log_var)) == always | {"log_var"}


@pytest.mark.parametrize("right", [True, False])
def test_queries_that_are_all_right_or_all_wrong_are_refused(data, right):
    match = np.full_like(data.match, right)
    match[: LEAST_OF_EACH - 1, 0] = not right
    what = "wrong" if right else "right"
    least = LEAST_OF_EACH
    wanted = f"at least {least} queries .* first hit is {what}, got {least - 1}"
    with pytest.raises(sf.InvalidArgument, match=wanted):
        check_enough(data._replace(match=match))
    match[:LEAST_OF_EACH, 0] = not right
    check_enough(data._replace(match=match))


@pytest.mark.parametrize(
    "wrong",
    [
        {"precision": 95},
        {"precision": 0.0},
        {"probability": 1.0},
        {"miss_rate": -0.1},
        {"novelty_level": 1.0},
        {"novelty_level": float("nan")},
    ],
)
def test_targets_out_of_range_are_refused_by_name(wrong):
    with pytest.raises(sf.InvalidArgument, match=next(iter(wrong))):
        CalibrationTargets(**wrong)


def test_the_guarantee_rests_on_judgements_across_classes(data, calibration):
    curve = calibration.curve
    wanted = guarantee_precision(
        np.array(curve.confidence), np.array(curve.right), data.class_codes, precision=0.7, probability=0.9
    )
    assert calibration.guarantee == wanted
    assert list(curve.baseline_right) == data.match[:, 0].tolist()


@pytest.mark.parametrize(
    ("guaranteed", "precision", "wanted"), [(0.83, 0.95, 0.83), (0.2, 0.95, 0.5), (None, 0.95, 0.95), (None, 0.3, 0.5)]
)
def test_a_match_needs_the_guaranteed_threshold_or_else_the_precision(guaranteed, precision, wanted):
    guarantee = replace(GUARANTEE, threshold=guaranteed, precision=precision)
    assert make_calibration(guarantee=guarantee).threshold == wanted


def test_novelty_is_fitted_to_queries_with_a_match(data):
    lonely = data._replace(has_match=data.class_codes != 5)
    found = fit_calibration(lonely, ORIGIN, CalibrationTargets()).novelty
    assert found == novelty_of(novelty_values(data.neighbourhood.profile)[data.class_codes != 5])


def test_novelty_is_the_logarithm_of_the_nearest_distance(data):
    wanted = np.log(data.neighbourhood.profile[:, 0])
    assert novelty_values(data.neighbourhood.profile) == pytest.approx(wanted)
    duplicate = data.neighbourhood._replace(profile=np.zeros_like(data.neighbourhood.profile))
    assert np.isfinite(novelty_values(duplicate.profile)).all()


def test_columns_to_compare_are_those_of_first_hits(data):
    names = ("distance_profile_correlation", "distance")
    found = first_hit_columns(data.neighbourhood, names, np.arange(288.0))
    assert set(found) == {*names, "confidence"}
    assert np.array_equal(
        found["distance_profile_correlation"], evidence(data.neighbourhood, ["distance_profile_correlation"])[:, 0, 0]
    )
    assert np.array_equal(found["confidence"], np.arange(288.0))


def test_a_judgement_is_made_of_the_parts(data, calibration):
    judged = calibration.judge(data.neighbourhood)
    assert np.array_equal(judged.confidence, calibration.model.confidence(data.neighbourhood))
    novelty = novelty_values(data.neighbourhood.profile)
    assert np.array_equal(judged.p_value, calibration.novelty.p_value(novelty))
    for sure, p_value, verdict in zip(judged.confidence.max(axis=1), judged.p_value, judged.verdict, strict=True):
        wanted = "match" if sure >= calibration.threshold else "unsure"
        assert verdict == ("no_match" if p_value <= 0.01 else wanted)
    assert ((judged.show >= 1) & (judged.show <= 20)).all()
