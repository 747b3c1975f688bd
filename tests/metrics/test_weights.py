"""Properties of all metrics: weights are repeated rows, and the order of rows does not matter."""

import math
from functools import partial

import pytest
import torch

from surefind.metrics import aupr, aurc, auroc, expected_calibration_error, fpr_at_tpr, kendall, spearman

DETECTION = [auroc, aupr, fpr_at_tpr]
CONTINUOUS = [
    spearman,
    kendall,
    *(partial(expected_calibration_error, definition=d) for d in ("equal_width", "equal_mass")),
]


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


@pytest.mark.parametrize("metric", [*DETECTION, aurc, *CONTINUOUS])
def test_the_order_of_rows_does_not_matter(metric, queries):
    target = queries.outcome if metric in CONTINUOUS else queries.positive
    shuffled = torch.randperm(len(queries.signal), generator=torch.Generator().manual_seed(1))
    ours = metric(queries.signal[shuffled], target[shuffled])
    assert ours == pytest.approx(metric(queries.signal, target), abs=1e-12)


@pytest.mark.parametrize("metric", [*DETECTION, aurc, spearman])
def test_arrays_and_lists_are_taken_as_tensors_are(metric, distinct):
    target = distinct.outcome if metric is spearman else distinct.positive
    wanted = metric(distinct.signal, target)
    assert metric(distinct.signal.numpy(), target.numpy()) == wanted
    assert metric(distinct.signal.tolist(), target.tolist()) == wanted
    together = metric(distinct.signal, target, weights=distinct.weights)
    assert torch.equal(metric(distinct.signal, target, weights=distinct.weights.numpy()), together)
