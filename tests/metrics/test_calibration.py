"""Calibration errors against plain loops, and what each definition does and does not see."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm, rankdata
from sklearn.metrics import brier_score_loss, log_loss

import surefind as sf
from surefind.metrics import (
    DEFINITIONS,
    aupr,
    aurc,
    auroc,
    brier_score,
    calibration_floor,
    debiased_calibration_error,
    expected_calibration_error,
    negative_log_likelihood,
    reliability_bins,
)


def loop_bins(values: np.ndarray, definition: str, bins: int) -> list[int]:
    """The bin of each query, one by one."""
    if definition == "equal_width":
        edges = np.linspace(values.min(), values.max(), bins + 1)
        inner = edges[1:-1] if values.max() > values.min() else np.full(bins - 1, np.inf)
        return [int((value >= inner).sum()) for value in values]
    middle = rankdata(values) - 0.5  # of the run of equal values, in queries
    return [int(bins * place // len(values)) for place in middle]


def loop_error(values: np.ndarray, outcome: np.ndarray, definition: str, bins: int) -> float:
    where, total = np.array(loop_bins(values, definition, bins)), 0.0
    for b in set(where.tolist()):
        inside = where == b
        guaranteed = {
            "equal_width": (bins - b) / bins,
            "equal_mass": (bins - b - 0.5) / bins,
            "probability": values[inside].mean(),
        }[definition]
        total += inside.sum() / len(values) * abs(guaranteed - outcome[inside].mean())
    return total


def values_for(definition: str, queries) -> torch.Tensor:
    return queries.confidence if definition == "probability" else queries.signal


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("bins", [1, 3, 10, 15, 200])
def test_errors_agree_with_a_plain_loop(definition: str, bins: int, queries):
    values = values_for(definition, queries)
    ours = expected_calibration_error(values, queries.outcome, definition=definition, bins=bins)
    wanted = loop_error(values.double().numpy(), queries.outcome.numpy(), definition, bins)
    assert ours == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_weights_are_rows_written_out(definition: str, queries):
    values = values_for(definition, queries)
    together = expected_calibration_error(values, queries.outcome, definition=definition, weights=queries.weights)
    found = reliability_bins(values, queries.outcome, definition=definition, weights=queries.weights)
    for i, rows in enumerate(queries.written_out(values, queries.outcome)):
        wanted = expected_calibration_error(*rows, definition=definition)
        assert together[i].item() == pytest.approx(wanted, abs=1e-12)
        for ours, alone in zip(found, reliability_bins(*rows, definition=definition), strict=True):
            torch.testing.assert_close(ours[i], alone, equal_nan=True)


def test_bins_of_a_hundred_different_variances():
    var, outcome = torch.arange(100.0) + 1, torch.linspace(1, 0, 100, dtype=torch.float64)
    mass = reliability_bins(var.square(), outcome, definition="equal_mass")
    assert mass.weight.tolist() == [10] * 10
    assert mass.confidence.tolist() == pytest.approx([0.95 - i / 10 for i in range(10)])
    width = reliability_bins(var.square(), outcome, definition="equal_width")
    assert width.weight[0] == 31  # squares below 1 + 9999 / 10
    assert width.weight[-1] == 6
    assert width.confidence.tolist() == pytest.approx([1 - i / 10 for i in range(10)])


def test_a_monotone_map_of_the_variance_changes_only_the_bins_of_equal_width(distinct):
    mapped, right = distinct.signal.double().exp(), ~distinct.positive
    for metric in (auroc, aupr, aurc):
        assert metric(mapped, distinct.positive) == metric(distinct.signal, distinct.positive)
    mass, width = (
        [expected_calibration_error(var, right, definition=definition) for var in (distinct.signal, mapped)]
        for definition in ("equal_mass", "equal_width")
    )
    assert mass[0] == mass[1]
    assert abs(width[0] - width[1]) > 0.05


def test_confidence_of_exactly_one_or_zero_is_not_dropped():
    confidence = torch.tensor([1.0, 1.0, 0.0, 0.0])
    right = torch.tensor([True, False, False, False])
    assert expected_calibration_error(confidence, right) == 0.25
    found = reliability_bins(confidence, right, definition="probability")
    assert found.weight.sum() == 4
    widest = reliability_bins(torch.tensor([0.0, 1.0]), right[:2], definition="equal_width")
    assert widest.weight.tolist() == [1] + [0] * 8 + [1]
    assert widest.outcome[1:9].isnan().all()


def test_equal_variances_are_all_in_the_surest_bin_of_equal_width():
    found = reliability_bins(torch.ones(5), torch.ones(5), definition="equal_width")
    assert found.weight.tolist() == [5] + [0] * 9
    assert expected_calibration_error(torch.ones(5), torch.ones(5), definition="equal_width") == 0


def test_a_single_query_and_a_resample_of_nothing():
    one, right = torch.tensor([0.8], dtype=torch.float64), torch.tensor([True])
    assert expected_calibration_error(one, right) == pytest.approx(0.2)
    for definition in DEFINITIONS:
        nothing = expected_calibration_error(one, right, definition=definition, weights=torch.zeros(2, 1))
        assert nothing.isnan().all()


def loop_debiased(confidence: np.ndarray, right: np.ndarray, bins: int) -> float:
    """Bin by bin, with the mean of |N(gap, noise^2)| by quadrature."""
    where, total = np.array(loop_bins(confidence, "probability", bins)), 0.0
    for b in set(where.tolist()):
        stated, outcome = confidence[where == b].mean(), right[where == b].mean()
        n, gap = int((where == b).sum()), abs(stated - outcome)
        noise = math.sqrt(outcome * (1 - outcome) / max(n - 1, 1))
        again = gap if noise == 0 else norm(gap, noise).expect(abs, epsabs=1e-10)
        total += n / len(right) * (2 * gap - again)
    return max(0.0, total)


@pytest.mark.parametrize("bins", [1, 3, 10])
def test_the_debiased_error_agrees_with_a_plain_loop(bins: int, queries):
    ours = debiased_calibration_error(queries.confidence, queries.positive, bins=bins)
    wanted = loop_debiased(queries.confidence.numpy(), queries.positive.numpy(), bins)
    assert ours == pytest.approx(wanted, abs=1e-7)


@pytest.mark.parametrize(("off", "queries"), [(0.0, 300), (0.0, 2000), (0.05, 2000), (0.1, 2000)])
def test_drawn_outcomes_have_the_error_that_is_true_and_a_perfect_model_the_floor(off: float, queries: int):
    """Of probabilities from 0.1 to 0.9 that state `off` too much."""
    draw = torch.Generator().manual_seed(queries)
    truth = torch.linspace(0.1, 0.9, queries, dtype=torch.float64)
    stated = truth + off
    found, plain = [], []
    for _ in range(400):
        right = torch.rand(queries, generator=draw, dtype=torch.float64) < truth
        found.append(debiased_calibration_error(stated, right))
        plain.append(expected_calibration_error(stated, right))
    wanted = off or calibration_floor(stated)
    assert np.mean(found) == pytest.approx(wanted, abs=0.003)
    assert np.mean(plain) > np.mean(found)


def test_the_floor_agrees_with_a_plain_loop_and_with_four_queries_of_one_half(queries):
    confidence, total = queries.confidence.numpy(), 0.0
    where = np.array(loop_bins(confidence, "probability", 10))
    for b in set(where.tolist()):
        inside = confidence[where == b]
        total += len(inside) / len(confidence) * math.sqrt((inside * (1 - inside)).mean() / len(inside))
    factor = 2 * math.sqrt(2 / math.pi) - 2 / math.sqrt(math.pi)
    assert calibration_floor(queries.confidence) == pytest.approx(factor * total)
    assert calibration_floor(torch.full((4,), 0.5)) == pytest.approx(factor / 4)
    assert calibration_floor(torch.tensor([0.0, 1.0])) == 0


def test_brier_and_likelihood_agree_with_scikit_learn(distinct):
    confidence, right = distinct.confidence, distinct.positive
    wanted = brier_score_loss(right, confidence)
    assert brier_score(confidence, right).mean().item() == pytest.approx(wanted)
    wanted = log_loss(right, confidence)
    assert negative_log_likelihood(confidence, right).mean().item() == pytest.approx(wanted)


def test_the_impossible_costs_infinity_and_the_certain_nothing():
    confidence = torch.tensor([1.0, 0.0, 1.0, 0.0])
    right = torch.tensor([True, False, False, True])
    assert negative_log_likelihood(confidence, right).tolist() == [0, 0, math.inf, math.inf]
    assert brier_score(confidence, right).tolist() == [0, 0, 1, 1]


def test_bad_input_is_refused_by_name():
    good, right = torch.tensor([0.5, 0.6]), torch.tensor([True, False])
    for bad in (torch.tensor([0.5, 1.1]), torch.tensor([-0.1, 0.5]), torch.tensor([0.5, math.nan])):
        with pytest.raises(sf.InvalidArgument, match="values: expected"):
            expected_calibration_error(bad, right)
        with pytest.raises(sf.InvalidArgument, match="outcome: expected"):
            expected_calibration_error(good, bad)
        for metric in (brier_score, negative_log_likelihood, debiased_calibration_error):
            with pytest.raises(sf.InvalidArgument, match="confidence: expected"):
                metric(bad, right)
            with pytest.raises(sf.InvalidArgument, match="correct: expected 2 values of bool"):
                metric(good, bad)
    with pytest.raises(sf.InvalidArgument, match="values: expected finite"):
        expected_calibration_error(torch.tensor([1.0, math.inf]), right, definition="equal_width")
    with pytest.raises(sf.InvalidArgument, match="did you mean 'equal_mass'"):
        expected_calibration_error(good, right, definition="equal-mass")
    with pytest.raises(sf.InvalidArgument, match="bins: expected"):
        expected_calibration_error(good, right, bins=0)
