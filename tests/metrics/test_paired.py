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


def test_groups_of_one_are_the_plain_test():
    first, second = torch.rand(2, 30, generator=torch.Generator().manual_seed(0))
    assert paired_test(first, second, groups=torch.arange(30)) == paired_test(first, second)


def test_p_of_groups_agrees_with_all_flips_of_whole_groups():
    difference = torch.tensor([0.2, 0.4, -0.1, 0.3, 0.3, -0.2, 0.5], dtype=torch.float64)
    groups = torch.tensor([0, 0, 1, 2, 2, 2, 3])
    sums = [0.6, -0.1, 0.4, 0.5]
    flips = [
        abs(sum(s * x for s, x in zip(signs, sums, strict=True)))
        for signs in product((1, -1), repeat=4)
    ]
    wanted = sum(flip >= sum(sums) - 1e-12 for flip in flips) / 16
    ours = paired_test(difference, torch.zeros(7), groups=groups, resamples=20_000)
    assert ours.p_value == pytest.approx(wanted, abs=0.01)
    assert ours.difference.value == pytest.approx(1.4 / 7)


def test_a_difference_of_a_few_groups_is_no_proof_but_of_many_queries_looks_like_one():
    """Without a true difference, whole groups lean one way or the other."""
    generator = torch.Generator().manual_seed(0)
    groups = torch.arange(20).repeat_interleave(10)
    by_group, by_query = [], []
    for _ in range(200):
        lean = torch.randn(20, generator=generator).repeat_interleave(10)
        difference = lean + 0.5 * torch.randn(200, generator=generator)
        zero = torch.zeros(200)
        by_group.append(paired_test(difference, zero, groups=groups, resamples=200).p_value)
        by_query.append(paired_test(difference, zero, resamples=200).p_value)
    assert (torch.tensor(by_group) <= 0.05).double().mean().item() == pytest.approx(0.05, abs=0.04)
    assert (torch.tensor(by_query) <= 0.05).double().mean().item() > 0.3


def test_groups_that_cancel_but_for_rounding_are_no_difference():
    third = torch.tensor([1 / 3, 1 / 3, -2 / 3, 0.1, 0.2, -0.3], dtype=torch.float64)
    groups = torch.tensor([0, 0, 0, 1, 1, 1])
    assert paired_test(third, torch.zeros(6), groups=groups).p_value == 1
