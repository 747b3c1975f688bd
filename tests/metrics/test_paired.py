"""The paired test: seldom wrong without a difference, sure of a real one."""

import math
from itertools import product

import pytest
import torch

import surefind as sf
from surefind.metrics import Estimate, paired_test


def p_values(shift: float, rounds: int = 300) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, rounds, 40, generator=generator)
    tests = (
        paired_test(a + shift, b, resamples=200, seed=i)
        for i, (a, b) in enumerate(zip(first, second, strict=True))
    )
    return torch.tensor([test.p_value for test in tests])


def test_without_a_difference_every_p_is_as_likely():
    p = p_values(shift=0)
    for share in (0.05, 0.25, 0.5, 0.75):
        assert (p <= share).double().mean().item() == pytest.approx(share, abs=0.07)


def test_a_real_difference_has_a_small_p():
    assert (p_values(shift=1.5, rounds=20) < 0.01).all()


def test_p_agrees_with_all_flips_of_a_few_differences():
    first = torch.tensor([0.9, 0.4, 0.8, 0.7, 0.6, 1.0], dtype=torch.float64)
    second = torch.tensor([0.7, 0.5, 0.5, 0.3, 0.6, 0.4], dtype=torch.float64)
    d = (first - second).tolist()
    flips = [
        abs(sum(s * x for s, x in zip(signs, d, strict=True)))
        for signs in product((1, -1), repeat=6)
    ]
    wanted = sum(flip >= sum(d) - 1e-12 for flip in flips) / 64
    ours = paired_test(first, second, resamples=20_000)
    assert ours.p_value == pytest.approx(wanted, abs=0.01)
    assert ours.difference.value == pytest.approx(sum(d) / 6)
    assert ours.difference.low < ours.difference.value < ours.difference.high


def test_swapping_the_methods_turns_the_difference_and_keeps_p():
    first, second = torch.rand(2, 30, generator=torch.Generator().manual_seed(0))
    forth, back = paired_test(first, second), paired_test(second, first)
    assert forth.difference.value == pytest.approx(-back.difference.value)
    assert forth.p_value == back.p_value


def test_equal_methods_have_p_of_one():
    same = paired_test(torch.ones(5), torch.ones(5))
    assert same.p_value == 1
    assert same.difference == Estimate(0.0, 0.0, 0.0)


def test_bad_input_is_refused_by_name():
    with pytest.raises(sf.InvalidArgument, match="second: expected 2 values"):
        paired_test(torch.ones(2), torch.ones(3))
    with pytest.raises(sf.InvalidArgument, match="first: expected finite"):
        paired_test(torch.tensor([math.inf]), torch.ones(1))
    with pytest.raises(sf.InvalidArgument, match="resamples: expected"):
        paired_test(torch.ones(2), torch.ones(2), resamples=0)
