"""Risk and coverage against plain loops over every order of the tied."""

import math
from itertools import permutations

import pytest
import torch

import surefind as sf
from surefind.metrics import aurc, excess_aurc, risk_at_coverage, risk_coverage

METRICS = [aurc, excess_aurc, lambda *x, **kw: risk_at_coverage(*x, 0.8, **kw)]


def loop_risks(wrong: list[bool]) -> list[float]:
    return [sum(wrong[:t]) / t for t in range(1, len(wrong) + 1)]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def test_the_curve_agrees_with_a_plain_loop(distinct):
    curve = risk_coverage(-distinct.signal, ~distinct.positive)
    wanted = loop_risks(distinct.positive[distinct.signal.argsort()].tolist())
    assert curve.risk.tolist() == pytest.approx(wanted)
    assert curve.area == pytest.approx(mean(wanted))
    best = mean(loop_risks(sorted(distinct.positive.tolist())))
    assert curve.excess == pytest.approx(curve.area - best)
    for coverage in (0.005, 0.07, 0.5, 0.8, 1.0):
        place = next(t for t in range(1, 98) if t / 97 >= coverage)
        assert curve.risk_at(coverage) == pytest.approx(wanted[place - 1])


def test_a_tie_is_the_mean_over_all_orders_of_the_tied():
    confidence = torch.tensor([0.9, 0.5, 0.5, 0.5, 0.5, 0.1])
    correct = torch.tensor([True, False, True, True, False, False])
    orders = [[False, *tied, True] for tied in permutations([not c for c in correct[1:5].tolist()])]
    wanted = [mean(list(risks)) for risks in zip(*map(loop_risks, orders), strict=True)]
    curve = risk_coverage(confidence, correct)
    assert curve.risk.tolist() == pytest.approx(wanted)
    assert aurc(-confidence, ~correct) == pytest.approx(mean(wanted))
    assert risk_at_coverage(-confidence, ~correct, 0.5) == pytest.approx(wanted[2])


def test_areas_agree_with_the_curve(queries):
    curve = risk_coverage(-queries.signal, ~queries.positive)
    assert aurc(queries.signal, queries.positive) == pytest.approx(curve.area, abs=1e-12)
    assert excess_aurc(queries.signal, queries.positive) == pytest.approx(curve.excess, abs=1e-12)
    for coverage in (0.01, 0.07, 0.5, 0.8, 0.9, 0.95, 1.0):
        ours = risk_at_coverage(queries.signal, queries.positive, coverage)
        assert ours == pytest.approx(curve.risk_at(coverage), abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_weights_are_rows_written_out(metric, queries):
    before = queries.weights.clone()
    together = metric(queries.signal, queries.positive, weights=queries.weights)
    assert torch.equal(queries.weights, before)
    for value, rows in zip(
        together.tolist(), queries.written_out(queries.signal, queries.positive), strict=True
    ):
        assert value == pytest.approx(metric(*rows), abs=1e-6)


@pytest.mark.parametrize("metric", METRICS)
def test_the_order_of_rows_does_not_matter(metric, queries):
    shuffled = torch.randperm(len(queries.signal), generator=torch.Generator().manual_seed(1))
    ours = metric(queries.signal[shuffled], queries.positive[shuffled])
    assert ours == pytest.approx(metric(queries.signal, queries.positive), abs=1e-12)


def test_the_best_order_has_no_excess_and_the_worst_the_most():
    wrong = torch.tensor([False] * 7 + [True] * 3)
    rank = torch.arange(10)
    assert excess_aurc(rank, wrong) == pytest.approx(0, abs=1e-12)
    assert risk_coverage(-rank, ~wrong).excess == pytest.approx(0, abs=1e-12)
    assert excess_aurc(-rank, wrong) > excess_aurc(torch.zeros(10), wrong) > 0


def test_without_knowledge_the_risk_is_the_error_rate_at_every_coverage():
    wrong = torch.tensor([True, False, False, False])
    assert risk_coverage(torch.zeros(4), ~wrong).risk.tolist() == pytest.approx([0.25] * 4)
    assert aurc(torch.zeros(4), wrong) == pytest.approx(0.25)


@pytest.mark.parametrize("flag", [True, False])
def test_a_single_query(flag: bool):
    wrong = torch.tensor([flag])
    assert (
        aurc(torch.tensor([0.3]), wrong) == risk_coverage(torch.tensor([0.7]), ~wrong).area == flag
    )
    assert excess_aurc(torch.tensor([0.3]), wrong) == 0


@pytest.mark.parametrize("metric", METRICS)
def test_a_resample_of_nothing_is_nan(metric):
    assert metric(torch.ones(2), torch.tensor([True, False]), weights=torch.zeros(1, 2)).isnan()


def test_bad_input_is_refused_by_name():
    with pytest.raises(sf.InvalidArgument, match="confidence: .* 1 nan"):
        risk_coverage(torch.tensor([math.nan]), torch.tensor([True]))
    with pytest.raises(sf.InvalidArgument, match="correct: .* bool"):
        risk_coverage(torch.tensor([0.5]), torch.tensor([1]))
    with pytest.raises(sf.InvalidArgument, match="wrong: "):
        aurc(torch.ones(2), torch.tensor([True]))
    with pytest.raises(sf.InvalidArgument, match="uncertainty: "):
        aurc(torch.ones(0), torch.ones(0).bool())
    for coverage in (0.0, 1.5, math.nan):
        with pytest.raises(sf.InvalidArgument, match="coverage: expected"):
            risk_at_coverage(torch.ones(1), torch.tensor([True]), coverage)
        with pytest.raises(sf.InvalidArgument, match="coverage: expected"):
            risk_coverage(torch.ones(1), torch.tensor([True])).risk_at(coverage)


def test_a_profile_is_all_of_it_at_once(distinct):
    weights = sf.metrics.resample_counts(97, 5, seed=0)
    signal, wrong = distinct.signal, distinct.positive
    profile = sf.metrics.risk_profile(signal, wrong, (0.5, 0.8), weights=weights)
    torch.testing.assert_close(profile.area, aurc(signal, wrong, weights=weights))
    torch.testing.assert_close(profile.excess, excess_aurc(signal, wrong, weights=weights))
    for coverage, risk in zip((0.5, 0.8), profile.risks, strict=True):
        torch.testing.assert_close(risk, risk_at_coverage(signal, wrong, coverage, weights=weights))
