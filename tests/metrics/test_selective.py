"""Risk and coverage against plain loops over every order of the tied."""

import math
from itertools import permutations

import pytest
import torch

import surefind as sf
from surefind.metrics import aurc, risk_coverage, risk_profile

COVERAGES = (0.01, 0.07, 0.5, 0.8, 0.9, 0.95, 1.0)


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


def test_areas_and_risks_of_resamples_are_those_of_the_curve_of_rows_written_out(queries):
    signal, wrong = queries.signal, queries.positive
    assert aurc(signal, wrong) == pytest.approx(risk_coverage(-signal, ~wrong).area, abs=1e-12)
    profile = risk_profile(signal, wrong, COVERAGES, weights=queries.weights.double())
    for row, (its_signal, its_wrong) in enumerate(queries.written_out(signal, wrong)):
        curve = risk_coverage(-its_signal, ~its_wrong)
        assert profile.area[row].item() == pytest.approx(curve.area, abs=1e-12)
        assert profile.excess[row].item() == pytest.approx(curve.excess, abs=1e-12)
        for coverage, risk in zip(COVERAGES, profile.risks, strict=True):
            assert risk[row].item() == pytest.approx(curve.risk_at(coverage), abs=1e-12)


def test_a_resample_of_nothing_is_nan():
    nothing = torch.zeros(1, 2)
    found = risk_profile(torch.ones(2), torch.tensor([True, False]), (0.8,), weights=nothing)
    assert all(value.isnan().all() for value in (found.area, found.excess, *found.risks))


def test_bad_input_is_refused_by_name():
    with pytest.raises(sf.InvalidArgument, match="confidence: .* 1 nan"):
        risk_coverage(torch.tensor([math.nan]), torch.tensor([True]))
    with pytest.raises(sf.InvalidArgument, match="correct: .* bool"):
        risk_coverage(torch.tensor([0.5]), torch.tensor([1]))
    with pytest.raises(sf.InvalidArgument, match="wrong: "):
        aurc(torch.ones(2), torch.tensor([True]))
    with pytest.raises(sf.InvalidArgument, match="uncertainty: "):
        aurc(torch.ones(0), torch.ones(0).bool())
    one = torch.ones(1)
    for coverage in (0.0, 1.5, math.nan):
        with pytest.raises(sf.InvalidArgument, match="coverage: expected"):
            risk_profile(one, one.bool(), (coverage,), weights=one[None])
        with pytest.raises(sf.InvalidArgument, match="coverage: expected"):
            risk_coverage(one, one.bool()).risk_at(coverage)
