"""Hits to show, p-values and verdicts, against plain loops and populations."""

import numpy as np
import pytest
from scipy.special import expit

from surefind.confidence import conformal
from surefind.confidence.conformal import (
    MATCH,
    NO_MATCH,
    UNSURE,
    Novelty,
    chance_of_match,
    fit_prediction_set,
    novelty_of,
    set_size,
    verdicts,
)


def fit_hits(confidence, match, groups, **asked):
    return fit_prediction_set(chance_of_match(confidence), match, groups, **asked)


def shown_hits(confidence, level):
    return set_size(chance_of_match(confidence), level)


def draw(rng, classes, size, *, hits=8, effect=0.0):
    """Hits whose confidence falls with the rank and knows nothing of how hard their class is."""
    groups = np.repeat(np.arange(classes), size)
    logit = rng.normal(0.8, 1.2, (len(groups), 1)) - 0.2 * np.arange(hits)
    wrong_by = rng.normal(0, effect, classes)[groups][:, None]
    return expit(logit), rng.random(logit.shape) < expit(logit + wrong_by), groups


def loop_size(confidence, level):
    chance = 1.0
    for k, p in enumerate(confidence.tolist(), start=1):
        chance *= 1 - p
        if 1 - chance >= level:
            return k
    return len(confidence)


def loop_risk(confidence, match, groups, level):
    """(G R + 1) / (G + 1) for one level."""
    losses = {}
    for row, found, name in zip(confidence, match, groups.tolist(), strict=True):
        losses.setdefault(name, []).append(not found[: loop_size(row, level)].any())
    risk = np.mean([np.mean(loss) for loss in losses.values()])
    return (len(losses) * risk + 1) / (len(losses) + 1)


def mean_miss(*, classes, size, effect, draws=400):
    """Mean share of misses in classes that were not calibrated with, and its standard error."""
    rng, misses = np.random.default_rng(0), []
    for _ in range(draws):
        rule = fit_hits(*draw(rng, classes, size, effect=effect), miss_rate=0.2)
        assert rule.level is not None  # or nothing is guaranteed
        confidence, match, _ = draw(rng, 40, size, effect=effect)
        shown = np.arange(8) < shown_hits(confidence, rule.level)[:, None]
        misses.append(1 - (shown & match).any(1).mean())
    return np.mean(misses), np.std(misses) / draws**0.5


@pytest.mark.parametrize(("size", "effect"), [(1, 0.0), (6, 1.0)])
def test_the_expected_share_of_misses_is_kept(size, effect):
    mean, error = mean_miss(classes=40, size=size, effect=effect)
    assert mean <= 0.2 + 3 * error
    assert mean > 0.12  # nor are far too many shown


@pytest.mark.parametrize("seed", range(5))
def test_the_level_is_the_smallest_that_a_plain_loop_allows(seed):
    rng = np.random.default_rng(seed)
    confidence, match, groups = draw(rng, 25, 4, effect=0.5)
    keep = rng.random(100) < 0.8  # classes of unequal size
    queries = confidence[keep].round(1), match[keep], groups[keep]
    rule = fit_hits(*queries, miss_rate=0.25)
    assert loop_risk(*queries, rule.level) <= 0.25
    assert rule.level > 0 and loop_risk(*queries, np.nextafter(rule.level, 0)) > 0.25


def test_sizes_agree_with_a_plain_loop():
    confidence = draw(np.random.default_rng(1), 200, 1)[0].round(1)
    rule = fit_hits(*draw(np.random.default_rng(2), 50, 1))
    for level in (0.0, 0.3, 0.7, 0.99, rule.level):
        wanted = [loop_size(row, level) for row in confidence]
        assert shown_hits(confidence, level).tolist() == wanted


def test_with_one_query_per_class_it_is_ordinary_risk_control():
    confidence = np.linspace(0.1, 0.9, 9)[:, None].repeat(2, 1)
    match = np.array([[False, True]]).repeat(9, 0)
    rule = fit_hits(confidence, match, np.arange(9), miss_rate=0.3)
    # (misses + 1) / 10 <= 0.3: two may be missed, those of the surest top hit
    assert rule.level == np.nextafter(confidence[6, 0], 1)
    assert rule.mean_size == (7 * 2 + 2) / 9
    assert rule.smallest_achievable_miss_rate == pytest.approx(0.1)


def test_a_share_that_all_hits_do_not_reach_has_no_level_and_shows_them_all():
    confidence, match = np.full((18, 3), 0.9), np.ones((18, 3), bool)
    match[:3] = False
    rule = fit_hits(confidence, match, np.arange(18), miss_rate=0.2)
    assert rule.level is None and rule.mean_size == 3
    assert rule.smallest_achievable_miss_rate == pytest.approx(4 / 19)
    assert shown_hits(confidence, rule.level).tolist() == [3] * 18
    assert fit_hits(confidence, match, np.arange(18), miss_rate=0.22).level is not None


def test_a_share_reached_exactly_is_reached_whatever_the_rounding():
    for misses in range(1, 12):  # of 19 classes with 3 queries, 1 of them missed in some
        match = np.ones((57, 2), bool)
        match[: 3 * misses : 3] = False
        miss = (misses / 3 + 1) / 20
        rule = fit_hits(np.full((57, 2), 0.5), match, np.arange(57) // 3, miss_rate=miss)
        assert rule.level is not None


def test_a_class_counts_once_however_many_queries_it_has():
    confidence, match, groups = draw(np.random.default_rng(3), 30, 1)
    copies = np.where(groups == 0, 50, 1)
    rule = fit_hits(confidence, match, groups, miss_rate=0.2)
    again = fit_hits(*(x.repeat(copies, 0) for x in (confidence, match, groups)), miss_rate=0.2)
    assert rule.level == again.level is not None


def test_a_certain_hit_that_is_wrong_makes_the_rule_show_more():
    confidence = np.tile([1.0, 0.5], (20, 1))
    match = np.tile([False, True], (20, 1))
    rule = fit_hits(confidence, match, np.arange(20))
    assert shown_hits(confidence, rule.level).tolist() == [2] * 20


# novelty


def test_p_values_agree_with_a_plain_count_also_of_ties():
    rng = np.random.default_rng(0)
    known, asked = rng.normal(size=300).round(1), rng.normal(size=200).round(1)
    wanted = [(1 + sum(value >= one for value in known)) / 301 for one in asked]
    assert novelty_of(known).p_value(asked) == pytest.approx(wanted)


@pytest.mark.parametrize("most", [2000, 7])
@pytest.mark.parametrize("decimals", [8, 0])
def test_p_values_of_genuine_queries_are_conformal(monkeypatch, most, decimals):
    monkeypatch.setattr(conformal, "MOST", most)
    rng = np.random.default_rng(1)
    p_values = []
    for _ in range(4000):
        values = rng.exponential(size=40).round(decimals)
        p_values.append(novelty_of(values[:39]).p_value(values[39:])[0])
    for level in (0.025, 0.05, 0.1, 0.2, 0.5, 0.9):
        slack = 3 * (level * (1 - level) / 4000) ** 0.5
        assert np.mean(np.array(p_values) <= level) <= level + slack


def test_leaving_values_out_makes_p_a_little_larger_and_never_smaller():
    rng = np.random.default_rng(3)
    known, asked = rng.normal(size=30_000).round(3), rng.normal(size=3000).round(3)
    thinned = novelty_of(known)
    exact = Novelty(tuple(np.sort(known).tolist()), len(known)).p_value(asked)
    more = thinned.p_value(asked) - exact
    assert len(thinned.reference) == 2000 and thinned.queries == 30_000
    assert more.min() >= 0 and 0 < more.max() <= 1 / 1999
    assert (thinned.reference[0], thinned.reference[-1]) == (known.min(), known.max())


def test_the_most_novel_query_has_the_smallest_p_value_and_never_zero():
    p_values = novelty_of(np.arange(9.0)).p_value(np.array([-np.inf, 0.0, 8.0, 8.1, np.inf]))
    assert p_values == pytest.approx([1.0, 1.0, 0.2, 0.1, 0.1])


# verdicts


@pytest.mark.parametrize(
    ("confidence", "p_value", "threshold", "rate", "wanted"),
    [
        (0.95, 0.50, 0.8, 0.01, MATCH),
        (0.80, 0.50, 0.8, 0.01, MATCH),  # at the threshold
        (0.79, 0.50, 0.8, 0.01, UNSURE),
        (0.95, 0.02, 0.8, 0.01, MATCH),
        (0.95, 0.01, 0.8, 0.01, NO_MATCH),  # at the level: no_match wins over match
        (0.10, 0.001, 0.8, 0.01, NO_MATCH),
        (0.90, 1e-4, 0.5, 0.0, MATCH),  # level 0: never no_match
        (0.10, 1e-4, 0.5, 0.0, UNSURE),
    ],
)
def test_the_table_of_verdicts(confidence, p_value, threshold, rate, wanted):
    sure, p_values = np.array([confidence]), np.array([p_value])
    assert verdicts(sure, p_values, threshold=threshold, novelty_level=rate) == [wanted]
