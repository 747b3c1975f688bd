"""Sentences about guarantees and verdicts."""

from dataclasses import replace

import pytest
from calibrations import GUARANTEE, ORIGIN, PREDICTION_SET, QUALITY, make_calibration

from surefind.confidence.calibrate import CalibrationTargets
from surefind.confidence.calibration import Curve
from surefind.confidence.explain import (
    answer_of,
    confidence_of,
    copies_left_out,
    found_quality,
    gallery_change,
    guaranteed,
    how_many_to_look_at,
    in_short,
    made_with,
    meaning,
    no_match_rule,
    shown,
)
from surefind.confidence.label_calibration import prior_calibration

NO_GUARANTEE = replace(GUARANTEE, threshold=None, coverage=0.0, selected=0, right=0, best=0.87, queries_needed=2400)

PRIOR = prior_calibration(replace(ORIGIN, evidence="prior"), CalibrationTargets())


def test_a_guarantee_names_precision_probability_threshold_and_coverage():
    assert guaranteed(GUARANTEE) == (
        'Guarantee (90 % probability): at least 95 % of results called "match" are correct. '
        "Threshold: confidence 83 %; it answers 41 % of queries."
    )
    soon = guaranteed(replace(GUARANTEE, horizon=1000))
    assert 'called "match" among the next 1,000 queries are correct' in soon
    assert "confidence > 99 %;" in guaranteed(replace(GUARANTEE, threshold=0.9999))


def test_what_cannot_be_guaranteed_says_what_holds_instead_and_the_remedy():
    assert guaranteed(NO_GUARANTEE) == (
        "A precision of 95 % cannot be guaranteed from 812 queries of 40 classes, so a result is "
        'called "match" from a confidence of 95 %, without a guarantee. To get one, label about '
        "119 classes like these (2,400 queries), or calibrate with `--precision 0.87`."
    )
    hopeless = guaranteed(replace(NO_GUARANTEE, best=0.0, queries_needed=None))
    assert "More queries like these would hardly help" in hopeless and "--precision" not in hopeless
    lenient = guaranteed(replace(NO_GUARANTEE, precision=0.3))
    assert "from a confidence of 50 %" in lenient


def test_a_calibration_in_short_is_what_was_answered_and_how_much_of_it_was_right():
    curve = Curve(confidence=(0.9, 0.85, 0.84, 0.2), right=(True, True, False, False))
    assert in_short(make_calibration(curve=curve)) == (
        'In short: 75 % of queries like these are answered ("match"), and 67 % of the answers were '
        "right; check the rest yourself."
    )
    sure_of_none = replace(curve, confidence=(0.1,) * 4)
    assert "no query like these is answered" in in_short(make_calibration(curve=sure_of_none))


def test_the_number_of_hits_to_show_is_one_sentence():
    assert shown(make_calibration()) == (
        "The hits to show contain a match for at least 90 % of queries (averaged over classes): "
        "4.6 of 20 hits on average."
    )
    by_labels = make_calibration(origin=replace(ORIGIN, evidence="labels"))
    assert shown(by_labels).endswith("4.6 of 20 labels on average.")
    assert shown(PRIOR) == "The labels to show add up to a probability of 90 %."


@pytest.mark.parametrize("smallest", [0.151, 0.16])
def test_a_miss_rate_that_cannot_be_reached_names_one_that_can(smallest: float):
    rule = replace(PREDICTION_SET, level=None, smallest_achievable_miss_rate=smallest)
    assert shown(make_calibration(prediction_set=rule)) == (
        "The top 20 hits contain a match for only 84 % of queries. Use `--miss 0.16`, or label more classes."
    )


@pytest.mark.parametrize(("genuine", "enough"), [(98, False), (99, True)])
def test_nothing_is_flagged_where_too_few_queries_are_genuine(genuine: int, enough: bool):
    calibration = make_calibration(genuine=genuine)
    assert (calibration.novelty.p_value([2.0])[0] <= calibration.novelty_level) == enough
    told = no_match_rule(calibration)
    assert told.startswith("At most 1 % of genuine queries will be flagged") == enough
    assert (f"{genuine} genuine queries are too few" in told) != enough


def test_a_novelty_level_of_zero_flags_nothing():
    assert no_match_rule(make_calibration(novelty_level=0.0)).startswith("No query is flagged")


@pytest.mark.parametrize(("images", "stale"), [(800, False), (1200, False), (1201, True), (799, True), (0, True)])
def test_a_gallery_that_changed_by_more_than_a_fifth_is_reported(images, stale):
    told = gallery_change(make_calibration(origin=ORIGIN), images)
    wanted = (
        f"stale: the gallery has {images:,} images and had 1,000 when calibrated; nothing is "
        "guaranteed now: surefind calibrate INDEX --again"
    )
    assert told == (wanted if stale else None)


def test_verdicts_are_explained():
    calibration = make_calibration()
    assert meaning("match", 0.5, calibration).endswith("reaches the threshold (83 %)")
    assert meaning("unsure", 0.5, calibration).endswith("below the threshold (83 %)")
    assert meaning("no_match", 0.003, calibration) == (
        "only 0.3 % of genuine queries look as unlike the indexed images"
    )
    without = make_calibration(guarantee=NO_GUARANTEE)
    for verdict in ("match", "unsure"):
        assert meaning(verdict, 0.5, without).endswith("(95 %), which guarantees nothing")


def test_what_a_calibration_rests_on_is_named():
    assert made_with(make_calibration()) == ("2026-11-16, 812 queries of 40 classes (labelled/), by neighbourhoods")
    by_labels = make_calibration(origin=replace(ORIGIN, evidence="labels"))
    assert made_with(by_labels).endswith("by labels of the index")
    assert made_with(PRIOR) == "prior calibration of surefind, not fitted to this index"


def test_a_prior_has_no_quality_and_flags_nothing():
    assert found_quality(PRIOR.quality) == "not measured"
    assert no_match_rule(PRIOR).endswith("that needs labelled queries.")


def test_the_label_vote_is_named_where_there_are_labels():
    assert "label vote" not in found_quality(QUALITY)
    assert ", label vote 0.700);" in found_quality(replace(QUALITY, vote_auroc=0.7))


@pytest.mark.parametrize(
    ("verdict", "label_set", "wanted"),
    [
        ("match", ("wren", "robin"), "wren, 62 %"),
        ("unsure", ("wren",), "wren, 62 %"),
        ("unsure", ("wren", "robin"), "wren, 62 %; or robin"),
        ("unsure", ("wren", *"abcdef"), "wren, 62 %; or a, b, c, d, …"),
        (None, ("wren",), None),
    ],
)
def test_a_label_is_answered_with_those_that_it_may_be(verdict, label_set, wanted):
    assert answer_of("wren", 0.62, label_set, verdict) == wanted


def test_the_confidence_of_no_match_assumes_a_genuine_query():
    assert confidence_of("unsure", 0.4) == "confidence 40 % that the first hit is a match"
    assert confidence_of("no_match", 0.4).endswith("if the query is in the catalogue")


def test_the_number_of_hits_to_check_is_given_where_it_helps():
    calibration = make_calibration()
    told = how_many_to_look_at("unsure", 4, calibration, listed=3)
    assert told is not None and told.startswith("check the first 4 hits, more than are listed:")
    for verdict, show in (("unsure", 1), ("no_match", 4), ("unsure", None)):
        assert how_many_to_look_at(verdict, show, calibration, listed=5) is None
    no_rule = make_calibration(prediction_set=replace(PREDICTION_SET, level=None))
    for useless in (no_rule, None):
        assert how_many_to_look_at("unsure", 4, useless, listed=5) is None


def test_copies_are_counted_where_there_are_any():
    none, one, many = (
        copies_left_out(make_calibration(origin=replace(ORIGIN, copies=copies))) for copies in (0, 1, 1200)
    )
    assert none is None
    assert one == "Left out: 1 image that is a copy of a query, by content or by an equal vector."
    assert many.startswith("Left out: 1,200 images that are copies of a query, by content")
