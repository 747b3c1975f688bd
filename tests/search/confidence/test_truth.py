"""Which hits are right: by label or by place, against a plain loop."""

import numpy as np
import pytest

import surefind as sf
from surefind.search.confidence.labelled_queries import (
    RADIUS,
    check_labelled,
    classes_of,
    has_match,
    matching,
)

LABELS = [{"label": name} for name in ("cat", "dog", "cat", "cow")]


def places(count, seed, *, size=100.0):
    random = np.random.default_rng(seed)
    return [
        {"east": float(east), "north": float(north)}
        for east, north in random.uniform(0, size, (count, 2))
    ]


def near(one, other) -> bool:
    return (
        (one["east"] - other["east"]) ** 2 + (one["north"] - other["north"]) ** 2
    ) ** 0.5 <= RADIUS


def test_rows_of_the_same_label_match():
    assert matching({"label": "cat"}, [*LABELS, {}]).tolist() == [True, False, True, False, False]


@pytest.mark.parametrize("query", [{"label": "3"}, {"label": 3}])
def test_a_label_is_the_same_as_a_number_and_as_a_text(query):
    gallery = [{"label": 3}, {"label": "3"}, {"label": 4}, {}]
    assert matching(query, gallery).tolist() == [True, True, False, False]
    assert has_match([query], gallery, left_out=np.array([False])).all()


def test_places_within_the_radius_match():
    gallery, queries = places(200, 0), places(20, 1)
    for query in queries:
        wanted = [near(query, row) for row in gallery]
        assert any(wanted)
        assert not all(wanted)
        assert matching(query, gallery).tolist() == wanted


def test_a_label_counts_more_than_a_place():
    row = {"label": "cat", "east": 0.0, "north": 0.0}
    assert not matching({"label": "dog", "east": 0.0, "north": 0.0}, [row]).any()


def test_a_query_in_the_gallery_needs_another_row_to_have_a_match():
    inside = np.ones(4, dtype=bool)
    assert has_match(LABELS, LABELS, left_out=inside).tolist() == [True, False, True, False]
    assert has_match(LABELS, LABELS, left_out=~inside).all()


@pytest.mark.parametrize("inside", [True, False])
def test_places_that_are_near_are_counted_as_a_loop_does(inside):
    gallery = places(60, 2, size=400.0)
    queries = gallery[:30] if inside else places(30, 3, size=400.0)
    wanted = [sum(near(query, row) for row in gallery) > inside for query in queries]
    assert any(wanted)
    assert not all(wanted)
    found = has_match(queries, gallery, left_out=np.full(30, inside))
    assert found.tolist() == wanted


def test_rows_without_a_place_match_no_place():
    gallery, queries = [*places(20, 4), {}, {"label": "cat"}], places(5, 5)
    assert not matching(queries[0], gallery)[20:].any()
    found = has_match(queries, gallery, left_out=np.zeros(5, dtype=bool))
    assert found.tolist() == [any(near(q, row) for row in gallery[:20]) for q in queries]
    assert not has_match(queries, [{}, {}], left_out=np.zeros(5, dtype=bool)).any()


def test_classes_are_those_of_the_labels_and_every_place_is_its_own():
    codes = classes_of(LABELS)
    assert codes[0] == codes[2]
    assert len(set(codes.tolist())) == 3
    assert sorted(classes_of(places(7, 6)).tolist()) == list(range(7))


def test_a_gallery_without_any_label_is_refused_with_a_remedy():
    check_labelled([{}, {"label": "a"}])
    with pytest.raises(sf.InvalidArgument, match=r"labels \(or places\).*got 2 images without"):
        check_labelled([{}, {"path": "x"}])
