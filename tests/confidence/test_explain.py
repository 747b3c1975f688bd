"""Sentences about guarantees and verdicts."""

from dataclasses import replace

import pytest
from calibrations import GUARANTEE, ORIGIN, PREDICTION_SET, make_calibration

from surefind.confidence.explain import (
    confidence_of,
    copies_left_out,
    gallery_change,
    guaranteed,
    how_many_to_look_at,
    meaning,
    no_match_rule,
    shown,
)

NO_GUARANTEE = replace(
    GUARANTEE, threshold=None, coverage=0.0, selected=0, right=0, best=0.87, queries_needed=2400
)


def test_a_guarantee_names_precision_probability_threshold_and_coverage():
    assert guaranteed(GUARANTEE) == (
        'Guarantee (90 % probability): at least 95 % of results called "match" are correct. '
        "Threshold: confidence 0.83; it answers 41 % of queries."
    )
    soon = guaranteed(replace(GUARANTEE, horizon=1000))
    assert 'called "match" among the next 1,000 queries are correct' in soon
    assert "confidence >0.99;" in guaranteed(replace(GUARANTEE, threshold=0.9999))


def test_what_cannot_be_guaranteed_says_what_could_and_how_many_queries_it_takes():
    assert guaranteed(NO_GUARANTEE) == (
        "Cannot guarantee a precision of 0.95 from 812 queries of 40 classes: the highest "
        "precision they support is about 0.87; about 2,400 queries would be enough. "
        'Confidence is shown, but no result is called "match".'
    )
    hopeless = guaranteed(replace(NO_GUARANTEE, best=0.0, queries_needed=None))
    assert "no lower precision can be guaranteed either" in hopeless
    assert "more queries like these would hardly help" in hopeless


def test_the_number_of_hits_to_show_is_one_sentence():
    assert shown(PREDICTION_SET) == (
        "The hits to show contain a match for at least 90 % of queries (averaged over classes): "
        "4.6 of 20 hits on average."
    )


@pytest.mark.parametrize("smallest", [0.151, 0.16])
def test_a_miss_rate_that_cannot_be_reached_names_one_that_can(smallest: float):
    rule = replace(PREDICTION_SET, level=None, smallest_achievable_miss_rate=smallest)
    assert shown(rule) == (
        "The top 20 hits contain a match for only 84 % of queries. "
        "Use `--miss 0.16`, or label more classes."
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


@pytest.mark.parametrize(
    ("images", "change"), [(750, None), (1250, None), (1251, "+25%"), (500, "-50%"), (0, "-100%")]
)
def test_a_gallery_that_changed_by_more_than_a_quarter_is_reported(images, change):
    told = gallery_change(make_calibration(origin=ORIGIN), images)
    assert (told is None) == (change is None)
    assert told is None or f"({change}): calibrate again" in told


def test_verdicts_are_explained():
    calibration = make_calibration()
    assert meaning("match", 0.5, calibration).endswith("reaches the threshold")
    assert meaning("unsure", 0.5, calibration).endswith("below the threshold (0.830)")
    assert meaning("no_match", 0.003, calibration) == (
        "only 0.3 % of genuine queries are as far from the indexed images"
    )
    without = make_calibration(guarantee=NO_GUARANTEE)
    assert "no precision could be guaranteed" in meaning("unsure", 0.5, without)


def test_the_confidence_of_no_match_assumes_a_genuine_query():
    assert confidence_of("unsure", 0.4) == "confidence 0.400 that the first hit is a match"
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
        copies_left_out(make_calibration(origin=replace(ORIGIN, copies=copies)))
        for copies in (0, 1, 1200)
    )
    assert none is None
    assert one == "Left out: 1 image that is a copy of a query, by content or by an equal vector."
    assert many.startswith("Left out: 1,200 images that are copies of a query, by content")
