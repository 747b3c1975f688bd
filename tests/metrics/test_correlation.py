"""Rank correlation against scipy."""

import math

import pytest
import torch
from scipy.stats import spearmanr

import surefind as sf
from surefind.metrics import spearman


@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_values_agree_with_scipy(levels: int, queries):
    other = (queries.outcome * levels).round() + queries.signal
    other[1] = other[0] + 1
    for x, y in ((queries.signal, other), (-queries.signal, other.round()), (other, other)):
        wanted = spearmanr(x, y).statistic
        assert spearman(x, y) == pytest.approx(wanted, abs=1e-12)


def test_a_constant_has_no_correlation():
    assert math.isnan(spearman(torch.ones(4), torch.arange(4)))
    assert math.isnan(spearman(torch.arange(4), torch.ones(4)))
    assert math.isnan(spearman(torch.ones(1), torch.ones(1)))


def test_bad_input_is_refused_by_name():
    with pytest.raises(sf.InvalidArgument, match="x: "):
        spearman(torch.tensor([1.0, math.nan]), torch.ones(2))
    with pytest.raises(sf.InvalidArgument, match="y: expected 2 values, one per query, got 3"):
        spearman(torch.ones(2), torch.ones(3))
