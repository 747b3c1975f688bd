"""Queries unlike those of calibration are named in plain words, and others rarely."""

import numpy as np
import pytest

from surefind.confidence.drift import check_calibration_data, compare, quantiles_of


def columns(rng, queries, *, nearest=0.0, spread=1.0):
    return {"nearest_distance": rng.normal(nearest, 1, queries), "confidence": rng.normal(0, spread, queries)}


@pytest.mark.parametrize(("then", "now"), [(40, 40), (3000, 60), (3000, 3000)])
def test_queries_of_the_same_kind_rarely_raise_an_alarm(then, now):
    rng = np.random.default_rng(0)
    alarms = sum(bool(compare(quantiles_of(columns(rng, then)), columns(rng, now))) for _ in range(200))
    assert alarms <= 20  # 0.05 of 200 is 10; its 0.999 quantile 20


@pytest.mark.parametrize(("nearest", "word"), [(1.0, "larger"), (-1.0, "smaller")])
def test_a_moved_column_is_named_with_its_direction(nearest, word):
    rng = np.random.default_rng(1)
    (drift,) = compare(quantiles_of(columns(rng, 1000)), columns(rng, 200, nearest=nearest))
    assert drift.name == "nearest_distance"
    assert f"nearest distance: values are {word} than when calibrated" in drift.message
    assert drift.p_value < 0.01 and drift.statistic > 0.2


def test_a_column_that_only_spreads_is_not_called_larger():
    then = np.linspace(-1, 1, 301)
    (drift,) = compare(quantiles_of({"ratio": then}), {"ratio": 4 * then})
    assert "spread differently" in drift.message


def test_the_most_unlike_column_comes_first():
    rng = np.random.default_rng(2)
    drifts = compare(quantiles_of(columns(rng, 1000)), columns(rng, 500, nearest=2.0, spread=4.0))
    assert [drift.name for drift in drifts] == ["nearest_distance", "confidence"]


def test_p_values_pay_for_the_number_of_columns():
    rng = np.random.default_rng(3)
    then, now = rng.normal(size=100), rng.normal(0.4, 1, 100)
    (alone,) = compare(quantiles_of({"a": then}), {"a": now}, level=0.999)
    both = compare(quantiles_of({"a": then, "b": then}), {"a": now, "b": now}, level=0.999)
    assert [drift.p_value for drift in both] == pytest.approx([2 * alone.p_value] * 2)


def test_few_values_are_kept_as_they_are_and_many_as_quantiles():
    few = np.random.default_rng(4).normal(size=50)
    assert quantiles_of({"a": few})["a"] == pytest.approx(sorted(few))
    many = quantiles_of({"a": np.arange(2001.0)})["a"]
    assert many == pytest.approx(np.arange(0, 2001, 10))


def remarks(**change):
    good = {"right": np.arange(600) % 7 > 0, "groups": np.arange(600) % 30, "has_match": np.ones(600, bool)}
    return check_calibration_data(**good | change)


def test_good_calibration_data_need_no_remark():
    assert remarks() == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"groups": np.arange(600) % 19}, "only 19 classes"),
        ({"groups": np.maximum(np.arange(600) - 400, 0) % 31}, "class 0 holds"),
        ({"has_match": np.arange(600) > 4}, "5 of 600 queries have no match"),
        ({"right": np.arange(600) % 30 > 5}, "errors cluster by class"),
    ],
)
def test_each_weakness_has_its_remark(change, words):
    (remark,) = remarks(**change)
    assert words in remark
