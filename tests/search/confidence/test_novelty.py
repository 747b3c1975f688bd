"""Conformal p-values: never too small for queries that belong, also when values are left out."""

import json
from dataclasses import asdict

import numpy as np
import pytest

import surefind as sf
from surefind.search.confidence import novelty
from surefind.search.confidence.novelty import Novelty, novelty_of


def test_p_values_agree_with_a_plain_count_also_of_ties():
    rng = np.random.default_rng(0)
    known, asked = rng.normal(size=300).round(1), rng.normal(size=200).round(1)
    wanted = [(1 + sum(value >= one for value in known)) / 301 for one in asked]
    assert novelty_of(known).p_value(asked) == pytest.approx(wanted)


@pytest.mark.parametrize("most", [2000, 7])
@pytest.mark.parametrize("decimals", [8, 0])
def test_a_query_that_belongs_has_a_small_p_value_no_more_often_than_it_says(
    monkeypatch, most, decimals
):
    monkeypatch.setattr(novelty, "MOST", most)
    rng = np.random.default_rng(1)
    p_values = []
    for _ in range(4000):
        values = rng.exponential(size=40).round(decimals)
        p_values.append(novelty_of(values[:39]).p_value(values[39:])[0])
    for level in (0.025, 0.05, 0.1, 0.2, 0.5, 0.9):
        slack = 3 * (level * (1 - level) / 4000) ** 0.5
        assert np.mean(np.array(p_values) <= level) <= level + slack


def test_without_ties_small_p_values_are_as_frequent_as_they_say():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(4000, 20))
    p_values = [novelty_of(row[:19]).p_value(row[19:])[0] for row in values]
    for level in (0.1, 0.5):
        assert np.mean(np.array(p_values) <= level + 1e-9) == pytest.approx(level, abs=0.03)


def test_leaving_values_out_makes_p_a_little_larger_and_never_smaller():
    rng = np.random.default_rng(3)
    known, asked = rng.normal(size=30_000).round(3), rng.normal(size=3000).round(3)
    thinned = novelty_of(known)
    exact = Novelty(tuple(np.sort(known).tolist()), len(known)).p_value(asked)
    more = thinned.p_value(asked) - exact
    assert len(thinned.reference) == 2000 and thinned.queries == 30_000
    assert more.min() >= 0 and 0 < more.max() <= 1 / 1999
    assert (thinned.reference[0], thinned.reference[-1]) == (known.min(), known.max())


def test_the_strangest_query_has_the_smallest_p_value_and_never_zero():
    p_values = novelty_of(np.arange(9.0)).p_value(np.array([-np.inf, 0.0, 8.0, 8.1, np.inf]))
    assert p_values == pytest.approx([1.0, 1.0, 0.2, 0.1, 0.1])


def test_a_single_reference_never_calls_anything_strange_with_certainty():
    assert novelty_of(np.array([1.0])).p_value(np.array([0.0, 2.0])).tolist() == [1.0, 0.5]


def test_no_queries_have_no_p_values():
    assert novelty_of(np.arange(5.0)).p_value(np.ones(0)).shape == (0,)


def test_it_survives_json():
    known = novelty_of(np.random.default_rng(4).normal(size=50))
    stored = json.loads(json.dumps(asdict(known)))
    again = Novelty(tuple(stored["reference"]), stored["queries"])
    asked = np.linspace(-2, 2, 9)
    assert again == known and again.p_value(asked).tolist() == known.p_value(asked).tolist()


@pytest.mark.parametrize("values", [[], [np.nan, 1.0], [np.inf, 1.0], [[1.0]]])
def test_a_reference_that_cannot_be_used_is_refused(values):
    with pytest.raises(sf.errors.InvalidArgument, match="fix:"):
        novelty_of(np.array(values))


@pytest.mark.parametrize("values", [[np.nan], [[1.0]]])
def test_a_value_that_is_not_a_number_is_refused(values):
    with pytest.raises(sf.errors.InvalidArgument, match="fix:"):
        novelty_of(np.arange(5.0)).p_value(np.array(values))
