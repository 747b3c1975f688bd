"""Few errors and how they come, against plain loops and closed cases."""

import numpy as np
import pytest
from scipy.stats import binom, t

from surefind.search.confidence.binomial import (
    classes_within,
    design_effect,
    effective_size,
    steady_design_effect,
    tail_probability,
)


def test_the_tail_is_that_of_the_binomial():
    wrong, n = np.meshgrid(np.arange(6), [5, 9, 40])
    for share in (0.01, 0.1, 0.5):
        ours = tail_probability(wrong, n, share=share)
        assert ours == pytest.approx(binom.cdf(wrong, n, share), rel=1e-10)


def test_a_tail_of_nothing_is_certain_and_of_part_counts_lies_between():
    assert tail_probability(0, 0, share=0.1) == 1
    low, middle, high = tail_probability([2, 2.5, 3], [20, 20, 20], share=0.2)
    assert low < middle < high


def loop_design_effect(wrong, groups):
    n, risk = len(wrong), np.mean(wrong)
    names = set(groups.tolist())
    if len(names) < 2 or risk in (0, 1):
        return 1.0
    z = [sum(wrong[groups == name]) - risk * sum(groups == name) for name in names]
    variance = len(z) / (len(z) - 1) * sum(value**2 for value in z) / n**2
    return max(1.0, variance / (risk * (1 - risk) / (n - 1)))


def test_the_design_effect_agrees_with_a_plain_loop_for_every_number_selected():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 7, 80)
    wrong = rng.random(80) < np.array([0, 0.1, 0.2, 0.3, 0.5, 0.7, 1])[groups]
    counts = np.arange(1, 81)
    ours = design_effect(wrong, groups, selected=counts)
    wanted = [loop_design_effect(wrong[:n], groups[:n]) for n in counts]
    assert ours == pytest.approx(wanted) and ours[-1] > 2
    assert classes_within(groups, counts).tolist() == [len(set(groups[:n])) for n in counts]


def test_errors_of_whole_classes_have_the_design_effect_of_their_size():
    groups = np.repeat(np.arange(40), 10)
    wrong = groups < 8
    deff = design_effect(wrong, groups, selected=np.array([400]))[0]
    assert deff == pytest.approx(10 * 40 / 39 * 399 / 400)


def test_without_errors_the_design_effect_is_what_all_rows_lead_to_expect():
    groups = np.tile(np.arange(20), 10)  # the first 20 rows are of 20 classes, the first 40 twice
    wrong = (groups < 4) & (np.arange(200) >= 60)
    all_rows = design_effect(wrong, groups, selected=np.array([200]))[0]
    seen = steady_design_effect(wrong, groups, selected=np.array([20, 40, 200]))
    assert seen == pytest.approx([1, 1 + (all_rows - 1) / 9, all_rows])
    assert all_rows > 2


def test_few_classes_are_worth_fewer_queries():
    n, one = np.array([100, 100, 100, 100]), np.ones(4)
    size = effective_size(n, np.array([100, 30, 3, 1]), deff=one, level=0.05)
    assert size[0] == pytest.approx(100) and size[3] == 0
    assert 100 > size[1] > size[2] > 0
    assert size[2] == pytest.approx(100 * (t.ppf(0.95, 99) / t.ppf(0.95, 2)) ** 2)
    assert effective_size(n, n, deff=4 * one, level=0.05) == pytest.approx(25)
