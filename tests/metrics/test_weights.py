"""Properties of all metrics: weights are repeated rows; arrays and lists are taken."""

import math

import pytest
import torch

from surefind.metrics import aupr, aurc, auroc, fpr_at_tpr, spearman

DETECTION = [auroc, aupr, fpr_at_tpr]


@pytest.mark.parametrize("metric", [*DETECTION, aurc, spearman])
def test_weights_are_rows_written_out(metric, queries):
    target = queries.outcome if metric is spearman else queries.positive
    before = queries.weights.clone()
    together = metric(queries.signal, target, weights=queries.weights)
    assert torch.equal(queries.weights, before)
    assert together.shape == (5,)
    rows = queries.written_out(queries.signal, target)
    for value, (signal, its) in zip(together.tolist(), rows, strict=True):
        if metric in DETECTION and len(its.unique()) == 1:
            assert math.isnan(value)
        else:
            assert value == pytest.approx(metric(signal, its), abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("metric", [*DETECTION, aurc, spearman])
def test_arrays_and_lists_are_taken_as_tensors_are(metric, distinct):
    target = distinct.outcome if metric is spearman else distinct.positive
    wanted = metric(distinct.signal, target)
    assert metric(distinct.signal.numpy(), target.numpy()) == wanted
    assert metric(distinct.signal.tolist(), target.tolist()) == wanted
    together = metric(distinct.signal, target, weights=distinct.weights)
    assert torch.equal(metric(distinct.signal, target, weights=distinct.weights.numpy()), together)
