"""The figures of the table, and the sentences that follow from them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.nn.functional import normalize

from surefind.demo.comparison import HitConfidence, Row, by_signals, compared, lead
from surefind.embeddings import Gaussians
from surefind.images.catalog import Catalog
from surefind.metrics.bootstrap import Estimate
from surefind.search.confidence.match_model import folds_of

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


def test_what_is_no_probability_has_no_calibration_error(groups):
    its = told(0.5)
    row = HitConfidence(100 * its.sure, its.right).row(
        "encoder", "asked", groups=groups, precision=0.8
    )
    same = its.row("encoder", "asked", groups=groups, precision=0.8)
    assert (row.ece, row.floor) == (None, None)
    assert same.ece is not None
    assert (row.auroc, row.answered) == (same.auroc, same.answered)


def test_the_cosine_has_a_probability_and_its_order_is_its_own():
    generator = torch.Generator().manual_seed(0)
    codes = torch.arange(300) // 10
    centres = torch.randn(30, 6, generator=generator)
    mean = centres[codes] + 0.7 * torch.randn(300, 6, generator=generator)
    catalog = Catalog(
        Path("x"),
        tuple(f"{row}.png" for row in range(300)),
        labels=tuple(f"{code:02d}" for code in codes),
    )
    signals = by_signals(Gaussians(normalize(mean), torch.ones(300)), catalog, learned=False)
    its, distance = signals["nearest_cosine"], signals["nearest_distance"]
    codes = catalog.codes
    same = distance.auroc(codes)  # of unit vectors they are one
    assert its.auroc(codes) == pytest.approx(same)
    row = its.row("encoder", "cosine + Platt", groups=catalog.codes, precision=0.8)
    assert row.ece < 0.15
    assert "ratio_1_20" in signals


def test_nothing_is_answered_by_guessing(groups):
    its = HitConfidence(np.random.default_rng(1).random(CLASSES * EACH), told(0).right)
    assert its.row("encoder", "asked", groups=groups, precision=0.8).answered == 0


def test_where_every_hit_is_right_there_is_no_auroc():
    right = np.ones(3, dtype=bool)
    assert np.isnan(HitConfidence(np.arange(3.0), right).auroc(np.arange(3)))


def test_an_auroc_is_the_mean_over_folds_of_classes(groups):
    its, fold = told(0.5), folds_of(groups)
    shifted = HitConfidence(its.sure + fold, its.right)  # as if each fold had a fit of its own
    within = [roc_auc_score(its.right[fold == f], its.sure[fold == f]) for f in np.unique(fold)]
    assert shifted.auroc(groups) == pytest.approx(np.mean(within))
    assert shifted.auroc(groups) == its.auroc(groups)


def test_a_lead_is_the_difference_and_its_interval_holds_it(groups):
    better, worse = told(0.5), told(1.5, seed=3)
    ahead = lead(better, worse, groups, seed=0)
    assert ahead.value == pytest.approx(better.auroc(groups) - worse.auroc(groups))
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
