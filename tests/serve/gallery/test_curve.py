"""What a threshold gives: as a plain loop, in closed cases, and never more from more doubt."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefind.search.confidence.quality import Curve
from surefind.serve.gallery.curve import reliability, threshold_curve

QUERIES = st.lists(
    st.tuples(st.floats(0, 1) | st.integers(0, 100).map(lambda n: n / 100), st.booleans()),
    max_size=60,
)


def curve_of(queries) -> Curve:
    confidence = tuple(sure for sure, _ in queries)
    return Curve(confidence, (0.5,) * len(queries), tuple(right for _, right in queries))


@given(QUERIES)
def test_the_curve_is_that_of_a_loop(queries):
    for number, row in enumerate(threshold_curve(curve_of(queries))):
        threshold = number / 100
        sure = [right for confidence, right in queries if confidence >= threshold]
        assert row["threshold"] == threshold
        assert (row["answered"], row["right"]) == (len(sure), sum(sure))
        assert row["coverage"] == (len(sure) / len(queries) if queries else 0)
        assert row["precision"] == (sum(sure) / len(sure) if sure else None)


@given(QUERIES)
def test_coverage_never_grows_with_the_threshold(queries):
    coverage = [row["coverage"] for row in threshold_curve(curve_of(queries))]
    assert coverage == sorted(coverage, reverse=True)


def test_with_no_threshold_all_are_answered():
    queries = [(0.0, False), (0.3, True), (0.9, True), (1.0, True)]
    first = threshold_curve(curve_of(queries))[0]
    assert first == {
        "threshold": 0.0, "coverage": 1.0, "precision": 0.75, "answered": 4, "right": 3
    }  # fmt: skip


def test_a_confidence_equal_to_the_threshold_is_sure_enough():
    rows = threshold_curve(curve_of([(0.83, True)]))
    assert [row["answered"] for row in rows] == [1] * 84 + [0] * 17


def test_where_confidence_tells_right_from_wrong_the_right_threshold_makes_no_error():
    rows = threshold_curve(curve_of([(0.2, False)] * 3 + [(0.8, True)] * 5))
    assert rows[20]["precision"] == 5 / 8
    assert (rows[21]["precision"], rows[80]["coverage"]) == (1.0, 5 / 8)
    assert rows[81]["precision"] is None


def test_there_are_101_rows_of_plain_numbers():
    rows = threshold_curve(curve_of([(0.5, True)]))
    assert len(rows) == 101
    assert {type(value) for row in rows for value in row.values()} == {float, int, type(None)}


def test_the_promised_threshold_has_a_row_of_its_own():
    curve = Curve(confidence=(0.9, 0.715, 0.71), baseline=(0.5,) * 3, right=(True, True, False))
    rows = threshold_curve(curve, promised=0.715)
    assert [row["threshold"] for row in rows][70:74] == [0.7, 0.71, 0.715, 0.72]
    assert (rows[72]["answered"], rows[72]["right"]) == (2, 2)
    assert threshold_curve(curve, promised=0.71) == threshold_curve(curve)


def test_bins_hold_equal_numbers_and_all_queries():
    random = np.random.default_rng(0)
    found = reliability(curve_of([(p, random.random() < p) for p in random.random(812)]))
    assert len(found) == 10
    assert sum(row["queries"] for row in found) == 812
    assert {row["queries"] for row in found} <= {81, 82}


def test_bins_are_those_of_a_loop():
    random = np.random.default_rng(1)
    queries = [(float(p), bool(random.random() < p)) for p in random.random(50)]
    ordered = sorted(queries)
    for place, row in enumerate(reliability(curve_of(queries), bins=5)):
        some = ordered[10 * place : 10 * place + 10]
        assert row["queries"] == 10
        assert row["confidence"] == pytest.approx(math.fsum(sure for sure, _ in some) / 10)
        assert row["right"] == pytest.approx(sum(right for _, right in some) / 10)


def test_the_least_sure_come_first():
    found = reliability(curve_of([(n / 100, True) for n in range(100)]))
    assert [row["confidence"] for row in found] == sorted(row["confidence"] for row in found)


def test_queries_of_equal_confidence_share_a_bin_and_empty_bins_are_left_out():
    found = reliability(curve_of([(0.7, True), (0.7, False), (0.7, True)]))
    assert found == [
        {"confidence": pytest.approx(0.7), "right": pytest.approx(2 / 3), "queries": 3}
    ]


def test_without_queries_there_are_no_bins():
    assert reliability(curve_of([])) == []
