"""A calibration from what was observed: which columns, what is refused, what it is worth."""

import numpy as np
import pytest
from calibrations import ORIGIN
from clusters import clusters, observed_clusters

import surefind as sf
from surefind.search.confidence.calibrate import (
    Wishes,
    columns_of,
    first_hit_columns,
    fit_calibration,
)
from surefind.search.confidence.conformal import novelty_of, novelty_values
from surefind.search.confidence.evidence import COLUMNS, evidence
from surefind.search.confidence.guarantee import promise_precision
from surefind.search.confidence.labelled_queries import LEAST_OF_EACH, Observed, check_enough


@pytest.fixture(scope="module")
def observed(tmp_path_factory) -> Observed:
    return observed_clusters(tmp_path_factory.mktemp("seen") / "store", *clusters(vague=True))


@pytest.fixture(scope="module")
def calibration(observed):
    return fit_calibration(observed, ORIGIN, Wishes(precision=0.7))


def sources_of(seen) -> set[str]:
    return {COLUMNS[name].source for name in columns_of(seen)}


def test_only_columns_that_can_say_anything_are_used(observed):
    always = {"distances", "density", "overlap"}
    assert sources_of(observed.seen) == always | {"variance"}
    constant = observed.seen._replace(query_var=np.full(len(observed.match), 0.3))
    assert sources_of(constant) == always
    doubt = np.random.default_rng(0).normal(size=len(observed.match))
    assert sources_of(constant._replace(doubt=doubt)) == always | {"doubt"}


@pytest.mark.parametrize("right", [True, False])
def test_queries_that_are_all_right_or_all_wrong_are_refused(observed, right):
    match = np.full_like(observed.match, right)
    match[: LEAST_OF_EACH - 1, 0] = not right
    what = "wrong" if right else "right"
    least = LEAST_OF_EACH
    wanted = f"at least {least} queries .* first hit is {what}, got {least - 1}"
    with pytest.raises(sf.InvalidArgument, match=wanted):
        check_enough(observed._replace(match=match))
    match[:LEAST_OF_EACH, 0] = not right
    check_enough(observed._replace(match=match))


@pytest.mark.parametrize(
    "wrong",
    [
        {"precision": 95},
        {"precision": 0.0},
        {"probability": 1.0},
        {"miss": -0.1},
        {"foreign_rate": 1.0},
        {"foreign_rate": float("nan")},
    ],
)
def test_wishes_that_make_no_sense_are_refused_by_name(wrong):
    with pytest.raises(sf.InvalidArgument, match=next(iter(wrong))):
        Wishes(**wrong)


def test_the_promise_rests_on_judgements_across_classes(observed, calibration):
    curve = calibration.curve
    wanted = promise_precision(
        np.array(curve.confidence),
        observed.match[:, 0],
        observed.groups,
        precision=0.7,
        probability=0.9,
    )
    assert calibration.promise == wanted
    assert list(curve.right) == observed.match[:, 0].tolist()


def test_novelty_is_that_of_queries_that_belong(observed):
    lonely = observed._replace(belongs=observed.groups != 5)
    found = fit_calibration(lonely, ORIGIN, Wishes()).novelty
    assert found == novelty_of(novelty_values(observed.seen)[observed.groups != 5])


def test_novelty_is_the_logarithm_of_the_nearest_distance(observed):
    wanted = np.log(observed.seen.profile[:, 0])
    assert novelty_values(observed.seen) == pytest.approx(wanted)
    duplicate = observed.seen._replace(profile=np.zeros_like(observed.seen.profile))
    assert np.isfinite(novelty_values(duplicate)).all()


def test_columns_to_compare_are_those_of_first_hits(observed):
    names = ("alike", "distance")
    found = first_hit_columns(observed.seen, names, np.arange(288.0))
    assert set(found) == {*names, "confidence"}
    assert np.array_equal(found["alike"], evidence(observed.seen, ["alike"])[:, 0, 0])
    assert np.array_equal(found["confidence"], np.arange(288.0))


def test_a_judgement_is_made_of_the_parts(observed, calibration):
    judged = calibration.judge(observed.seen)
    assert np.array_equal(judged.confidence, calibration.model.confidence(observed.seen))
    strange = novelty_values(observed.seen)
    assert np.array_equal(judged.belongs, calibration.novelty.p_value(strange))
    threshold = calibration.promise.threshold
    for sure, belongs, verdict in zip(
        judged.confidence[:, 0], judged.belongs, judged.verdict, strict=True
    ):
        wanted = "match" if threshold is not None and sure >= threshold else "unsure"
        assert verdict == ("foreign" if belongs <= 0.01 else wanted)
    assert ((judged.show >= 1) & (judged.show <= 20)).all()
