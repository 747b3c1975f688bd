"""Correlations of ranks against scipy."""

import math

import pytest
import torch
from scipy.stats import kendalltau, spearmanr

import surefind as sf
from surefind.metrics import kendall, spearman

REFERENCE = {spearman: spearmanr, kendall: kendalltau}


@pytest.mark.parametrize("metric", [spearman, kendall])
@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_values_agree_with_scipy(metric, levels: int, queries):
    other = (queries.outcome * levels).round() + queries.signal
    other[1] = other[0] + 1
    for x, y in ((queries.signal, other), (-queries.signal, other.round()), (other, other)):
        wanted = REFERENCE[metric](x, y).statistic
        assert metric(x, y) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("metric", [spearman, kendall])
def test_a_constant_has_no_correlation(metric):
    assert math.isnan(metric(torch.ones(4), torch.arange(4)))
    assert math.isnan(metric(torch.arange(4), torch.ones(4)))
    assert math.isnan(metric(torch.ones(1), torch.ones(1)))


@pytest.mark.parametrize("metric", [spearman, kendall])
def test_bad_input_is_refused_by_name(metric):
    with pytest.raises(sf.InvalidArgument, match="x: "):
        metric(torch.tensor([1.0, math.nan]), torch.ones(2))
    with pytest.raises(sf.InvalidArgument, match="y: expected 2 values, one per query, got 3"):
        metric(torch.ones(2), torch.ones(3))
