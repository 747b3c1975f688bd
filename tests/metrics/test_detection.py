"""AUROC, AUPR and FPR@TPR against scikit-learn and loops."""

import math

import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

import surefind as sf
from surefind.metrics import aupr, auroc, auroc_within, fpr_at_tpr

METRICS = [auroc, aupr, fpr_at_tpr]


def reference_fpr(positive: torch.Tensor, signal: torch.Tensor, tpr: float = 0.95) -> float:
    rates, found, _ = roc_curve(positive, signal, drop_intermediate=False)
    return min(rate for rate, share in zip(rates, found, strict=True) if share >= tpr)


REFERENCE = {auroc: roc_auc_score, aupr: average_precision_score, fpr_at_tpr: reference_fpr}


@pytest.mark.parametrize("metric", METRICS)
def test_values_agree_with_scikit_learn(metric, queries):
    wanted = REFERENCE[metric](queries.positive, queries.signal)
    assert metric(queries.signal, queries.positive) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("tpr", [0.05, 0.5, 0.8, 0.95, 1.0])
def test_false_positive_rates_agree_at_every_true_positive_rate(tpr: float, queries):
    wanted = reference_fpr(queries.positive, queries.signal, tpr)
    assert fpr_at_tpr(queries.signal, queries.positive, tpr=tpr) == pytest.approx(wanted)


def test_within_groups_it_is_the_mean_of_their_areas(queries):
    groups = torch.arange(len(queries.signal)) % 5
    found = []
    for group in range(5):
        own = groups == group
        if len(queries.positive[own].unique()) == 2:
            found.append(roc_auc_score(queries.positive[own], queries.signal[own]))
    ours = auroc_within(queries.signal, queries.positive, groups)
    if not found:
        assert math.isnan(ours)
    else:
        assert ours == pytest.approx(sum(found) / len(found), abs=1e-12)


def test_within_groups_weights_are_rows_written_out(distinct):
    groups = torch.arange(len(distinct.signal)) % 3
    together = auroc_within(distinct.signal, distinct.positive, groups, weights=distinct.weights)
    rows = distinct.written_out(distinct.signal, distinct.positive, groups)
    for value, (signal, positive, its) in zip(together.tolist(), rows, strict=True):
        assert value == pytest.approx(auroc_within(signal, positive, its), abs=1e-6)


def test_an_infinite_signal_is_the_highest():
    signal, positive = torch.tensor([math.inf, 3.0, -math.inf]), torch.tensor([True, False, False])
    assert auroc(signal, positive) == aupr(signal, positive) == 1


def test_counts_of_many_queries_stay_exact():
    n = 300_000
    signal = torch.arange(n).remainder(3)
    positive = torch.arange(n).remainder(2) == 0
    weights = torch.full((1, n), 80.0)  # 24 million rows: beyond what float32 counts
    ours = auroc(signal, positive, weights=weights).item()
    assert ours == pytest.approx(auroc(signal, positive), abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", [True, False])
def test_one_kind_of_queries_is_refused_but_nan_in_a_resample(metric, kind: bool):
    signal, positive = torch.tensor([1.0, 2.0]), torch.tensor([kind, kind])
    with pytest.raises(sf.InvalidArgument, match="positive: expected both kinds"):
        metric(signal, positive)
    assert metric(signal, positive, weights=torch.ones(3, 2)).isnan().all()


@pytest.mark.parametrize("metric", METRICS)
def test_bad_input_is_refused_by_name(metric):
    signal, positive = torch.tensor([1.0, 2.0]), torch.tensor([True, False])
    for bad in (torch.tensor([1.0, math.nan]), torch.ones(2, 1), torch.ones(0), ["a", "b"]):
        with pytest.raises(sf.InvalidArgument, match="signal: expected"):
            metric(bad, positive)
    for bad in (torch.tensor([True]), torch.tensor([1.0, 0.0]), None):
        with pytest.raises(sf.InvalidArgument, match="positive: expected"):
            metric(signal, bad)
    for bad in (torch.ones(2), torch.ones(1, 3), -torch.ones(1, 2), torch.tensor([[0.5, 0.7]])):
        with pytest.raises(sf.InvalidArgument, match="weights: expected"):
            metric(signal, positive, weights=bad)


@pytest.mark.parametrize("tpr", [0.0, 1.1, math.nan, "all"])
def test_a_rate_that_cannot_be_is_refused(tpr: object):
    with pytest.raises(sf.InvalidArgument, match="tpr: expected"):
        fpr_at_tpr(torch.tensor([1.0, 2.0]), torch.tensor([True, False]), tpr=tpr)
