"""The figures of the table, and the sentences that follow from them."""

import numpy as np
import pytest

from surefind.demo.results import HitConfidence, Row, compared, lead
from surefind.metrics.bootstrap import Estimate

CLASSES, EACH = 40, 25


@pytest.fixture
def groups() -> np.ndarray:
    return np.repeat(np.arange(CLASSES), EACH)


def told(noise: float, *, seed: int = 0) -> HitConfidence:
    """The truth, and a probability that knows it but for noise."""
    draw = np.random.default_rng(seed)
    right = np.random.default_rng(7).random(CLASSES * EACH) < 0.5
    blurred = right + noise * draw.standard_normal(len(right))
    sure = 1 / (1 + np.exp(-4 * (blurred - 0.5)))
    return HitConfidence(sure, right, sure)


def test_a_row_counts_what_it_says(groups):
    row = told(0.01).row("encoder", "asked", groups=groups, precision=0.8)
    right = told(0.01).right.mean()
    assert row.recall == right
    assert row.auroc == 1
    assert row.answered >= right  # all right ones can be answered, and a few others
    assert row.ece == pytest.approx(1 / (1 + np.exp(2)), abs=0.01)
    assert 0 < row.floor < 0.02


def test_a_lead_is_the_difference_and_its_interval_holds_it(groups):
    better, worse = told(0.5), told(1.5, seed=3)
    ahead = lead(better, worse, groups, seed=0)
    first, second = (told.row("", "", groups=groups, precision=0.8) for told in (better, worse))
    assert ahead.value == pytest.approx(first.auroc - second.auroc)
    assert 0 < ahead.low < ahead.value < ahead.high
    assert lead(worse, better, groups, seed=0).high < 0
    assert lead(better, better, groups, seed=0) == Estimate(0, 0, 0)


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
        Row("e", name, 0.5, value, None, None, 0) for name, value in (("a", 0.8), ("b", 0.7))
    )
    assert words in compared(first, second, ahead)
