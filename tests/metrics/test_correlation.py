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


def test_kendall_agrees_with_scipy_for_many_queries():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60_000, generator=generator)
    y = x + torch.randn(60_000, generator=generator)
    assert kendall(x, y) == pytest.approx(kendalltau(x, y).statistic, abs=1e-12)
    x, y = (10 * x).round(), (10 * y).round()
    assert kendall(x, y) == pytest.approx(kendalltau(x, y).statistic, abs=1e-12)


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
