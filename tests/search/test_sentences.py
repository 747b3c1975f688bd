"""What people are told of guarantees and verdicts."""

from dataclasses import replace

import pytest
from calibrations import GUARANTEE, ORIGIN, SHOWING, make_calibration

from surefind.search.hits import SearchResult
from surefind.search.sentences import (
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
    GUARANTEE, threshold=None, coverage=0.0, selected=0, right=0, best=0.87, enough=2400
)


def result(**changed) -> SearchResult:
    facts = {"verdict": "unsure", "confidence": 0.4, "novelty_p_value": 0.5, "show": 4}
    return SearchResult(query="q.jpg", hits=(), query_var=0.1, ranking="mean", **facts | changed)


def test_a_guarantee_is_one_sentence():
    assert guaranteed(GUARANTEE) == (
        "Of what is called a match, at least 95 % is right, with probability 90 %: "
        "confidence from 0.830, which answers 41 % of the queries."
    )


def test_a_guarantee_for_the_next_queries_says_how_many():
    assert guaranteed(replace(GUARANTEE, ahead=1000)).startswith(
        "Of what is called a match among the next 1,000 queries, at least 95 % is right"
    )


def test_what_cannot_be_guaranteed_says_what_could_and_what_would_do():
    assert guaranteed(NO_GUARANTEE) == (
        "Cannot guarantee 0.95 with 812 queries of 40 classes: the most that can be guaranteed is "
        "about 0.87; about 2,400 queries would do. "
        "Confidence is shown, but nothing is called a match."
    )


def test_what_more_queries_would_not_change_is_said():
    told = guaranteed(replace(NO_GUARANTEE, best=0.0, enough=None))
    assert "no lower precision can be guaranteed either" in told
    assert "more queries like these would hardly do" in told


def test_how_many_hits_are_shown_is_one_sentence():
    assert shown(SHOWING) == (
        "A match is among the hits to look at in at least 90 % of queries, on average over "
        "classes: 4.6 of 20 hits in the mean."
    )


def test_a_miss_that_cannot_be_kept_says_which_can():
    told = shown(replace(SHOWING, level=None, reached=0.14))
    assert "Even all 20 hits cannot be sure to hold a match in 90 % of queries" in told
    assert "a miss of 14 %" in told


@pytest.mark.parametrize(("belonging", "can"), [(98, False), (99, True)])
def test_nothing_is_called_foreign_where_too_few_queries_belong(belonging: int, can: bool):
    calibration = make_calibration(belonging=belonging)
    strangest = calibration.novelty.p_value([2.0])[0]
    assert (strangest <= calibration.novelty_level) == can
    told = no_match_rule(calibration)
    assert told.startswith("Of the queries that belong here, at most 1 %") == can
    assert told.startswith(f"Nothing is called foreign: {belonging} queries") != can


def test_a_novelty_level_of_nothing_calls_nothing_foreign():
    assert "Nothing is called foreign" in no_match_rule(make_calibration(novelty_level=0.0))


@pytest.mark.parametrize(
    ("images", "change"), [(750, None), (1250, None), (1251, "+25%"), (500, "-50%"), (0, "-100%")]
)
def test_a_gallery_that_changed_by_more_than_a_quarter_is_told(images: int, change: str | None):
    told = gallery_change(make_calibration(origin=ORIGIN), images)
    assert (told is None) == (change is None)
    assert told is None or f"({change}): calibrate again" in told


def test_verdicts_are_explained():
    calibration = make_calibration()
    assert "sure enough to be called one" in meaning(result(verdict="match"), calibration)
    assert "called a match (0.830 is)" in meaning(result(), calibration)
    assert meaning(result(verdict="no_match", novelty_p_value=0.003), calibration) == (
        "stranger than all but 0.3 % of the queries that belong here"
    )
    assert "no precision could be guaranteed" in meaning(
        result(), make_calibration(guarantee=NO_GUARANTEE)
    )


def test_the_confidence_of_a_foreign_query_is_one_among_those_that_belong():
    assert confidence_of(result()) == "confidence 0.400 that the first hit is a match"
    assert confidence_of(result(verdict="no_match")).endswith("if the query did belong here")


def test_how_many_hits_to_look_at_is_told_where_it_helps():
    calibration = make_calibration()
    told = how_many_to_look_at(result(), calibration)
    assert told is not None and told.startswith("look at the first 4 hits, more than are listed:")
    for useless in (result(show=1), result(verdict="no_match"), result(show=None)):
        assert how_many_to_look_at(useless, calibration) is None
    no_rule = make_calibration(showing=replace(SHOWING, level=None))
    assert how_many_to_look_at(result(), no_rule) is None
    assert how_many_to_look_at(result(), None) is None


def test_copies_are_counted_where_there_are_any():
    told = [
        copies_left_out(make_calibration(origin=replace(ORIGIN, copies=copies)))
        for copies in (0, 1, 1200)
    ]
    assert told[0] is None
    assert (
        told[1] == "Left out: 1 image that is a copy of a query, by content or by an equal vector."
    )
    assert told[2].startswith("Left out: 1,200 images that are copies of a query, by content")
