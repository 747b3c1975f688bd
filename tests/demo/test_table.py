"""The figures of the table, and the sentences that follow from them."""

import numpy as np
import pytest
import torch

from surefind.demo.reading import compared
from surefind.demo.table import Row, Told, auroc, best_free, lead, row_of
from surefind.metrics.bootstrap import Estimate

CLASSES, EACH = 40, 25


@pytest.fixture
def groups() -> np.ndarray:
    return np.repeat(np.arange(CLASSES), EACH)


def told(noise: float, *, seed: int = 0) -> Told:
    """The truth, and a probability that knows it but for noise."""
    draw = np.random.default_rng(seed)
    right = np.random.default_rng(7).random(CLASSES * EACH) < 0.5
    blurred = right + noise * draw.standard_normal(len(right))
    return Told(1 / (1 + np.exp(-4 * (blurred - 0.5))), right, is_probability=True)


def test_a_row_counts_what_it_says(groups):
    row = row_of("encoder", "asked", told(0.01), groups=groups, precision=0.8)
    right = told(0.01).right.mean()
    assert row.recall == right
    assert row.auroc == 1
    assert row.answered >= right  # all right ones can be answered, and a few others
    assert row.ece == pytest.approx(1 / (1 + np.exp(2)), abs=0.01)


def test_what_is_no_probability_has_no_calibration_error(groups):
    its = told(0.5)
    row = row_of("encoder", "asked", Told(100 * its.sure, its.right), groups=groups, precision=0.8)
    same = row_of("encoder", "asked", its, groups=groups, precision=0.8)
    assert row.ece is None
    assert same.ece is not None
    assert (row.auroc, row.answered) == (same.auroc, same.answered)


def test_nothing_is_answered_by_guessing(groups):
    its = Told(np.random.default_rng(1).random(CLASSES * EACH), told(0).right)
    assert row_of("encoder", "asked", its, groups=groups, precision=0.8).answered == 0


def test_where_every_hit_is_right_there_is_no_auroc():
    assert np.isnan(auroc(Told(np.arange(3.0), np.ones(3, dtype=bool))))


def test_the_best_signal_without_training_is_no_learned_one():
    signals = {"query_var": told(0.01), "nearest_distance": told(2), "ratio_1_10": told(0.5)}
    assert best_free(signals) == "ratio_1_10"


def test_a_lead_is_the_difference_and_its_interval_holds_it(groups):
    better, worse = told(0.5), told(1.5, seed=3)
    ahead = lead(better, worse, groups=groups, seed=0)
    assert ahead.value == pytest.approx(auroc(better) - auroc(worse))
    assert 0 < ahead.low < ahead.value < ahead.high
    assert lead(worse, better, groups=groups, seed=0).high < 0
    assert lead(better, better, groups=groups, seed=0) == Estimate(0, 0, 0)


def test_resampling_does_not_touch_the_generator_of_others(groups):
    state = torch.random.get_rng_state()
    lead(told(0.5), told(1.0), groups=groups, seed=0)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (
            Estimate(0.1, 0.05, 0.2),
            "e: a (AUROC 0.800) is better than the b (0.700); the difference is +0.100, over",
        ),
        (Estimate(0.1, -0.05, 0.2), " is no better than the b "),
        (Estimate(-0.1, -0.2, -0.05), " is worse than the b "),
    ],
)
def test_the_sentence_is_honest(ahead: Estimate, words: str):
    first, second = (
        Row("e", name, 0.5, value, None, 0) for name, value in (("a", 0.8), ("b", 0.7))
    )
    assert words in compared(first, second, ahead)
