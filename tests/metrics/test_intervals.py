"""Bootstrap intervals and the paired test: reproducible, of the right width, with groups."""

import math
import sys
from itertools import product

import pytest
import torch

import surefind as sf
from surefind.metrics import Estimate, auroc, bootstrap, bootstrap_means, paired_test, resample_counts


def mean_of(values: torch.Tensor):
    return lambda weights: weights @ values / weights.sum(1)


def test_counts_are_those_of_drawing_with_replacement():
    counts = resample_counts(50, 4000, seed=0)
    assert counts.dtype == torch.float32
    assert (counts.sum(1) == 50).all()
    torch.testing.assert_close(counts.mean(0), torch.ones(50), rtol=0, atol=0.08)
    torch.testing.assert_close(counts.var(0), torch.full((50,), 0.98), rtol=0, atol=0.15)
    covariance = (counts[:, 0] * counts[:, 1]).mean() - 1
    assert covariance.item() == pytest.approx(-1 / 50, abs=0.05)


def test_the_seed_determines_the_resamples():
    values = torch.rand(30, generator=torch.Generator().manual_seed(0))
    assert bootstrap(mean_of(values), 30) == bootstrap(mean_of(values), 30, seed=0)
    assert bootstrap(mean_of(values), 30) != bootstrap(mean_of(values), 30, seed=1)
    assert torch.equal(resample_counts(9, 3, seed=4), resample_counts(9, 3, seed=4))


def test_blocks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch):
    values = torch.rand(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    statistic = lambda weights: mean_of(values)(weights.double())
    together, means = bootstrap(statistic, 30), bootstrap_means(values[:, None])
    module = sys.modules[bootstrap.__module__]
    monkeypatch.setattr(module, "BLOCK", 100)
    seen = []
    in_blocks = bootstrap(lambda weights: seen.append(len(weights)) or statistic(weights), 30)
    assert seen == [1] + [3] * 333 + [1]
    for wanted, ours in ((together, in_blocks), (means[0], bootstrap_means(values[:, None])[0])):
        assert (ours.value, ours.low, ours.high) == pytest.approx((wanted.value, wanted.low, wanted.high))


def test_an_interval_holds_the_true_mean_about_95_times_in_100():
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(60, 800, generator=generator) + 3
    estimates = bootstrap_means(samples, resamples=500)
    held = sum(e.low <= 3 <= e.high for e in estimates) / 800
    assert 0.92 <= held <= 0.97
    narrow = bootstrap_means(samples, resamples=500, level=0.5)
    assert 0.45 <= sum(e.low <= 3 <= e.high for e in narrow) / 800 <= 0.55


def test_means_of_many_columns_are_the_bootstraps_of_each():
    values = torch.rand(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for column, ours in zip(values.T, bootstrap_means(values, resamples=300), strict=True):
        wanted = bootstrap(lambda w: mean_of(column)(w.double()), 40, resamples=300)
        assert (ours.value, ours.low, ours.high) == pytest.approx((wanted.value, wanted.low, wanted.high))


def test_resamples_without_a_value_are_left_out():
    signal, positive = torch.tensor([1.0, 2.0]), torch.tensor([False, True])
    statistic = lambda weights: auroc(signal, positive, weights=weights)
    assert bootstrap(statistic, 2) == Estimate(1.0, 1.0, 1.0)
    nothing = bootstrap(lambda weights: torch.full((len(weights),), math.nan), 2)
    assert all(math.isnan(x) for x in (nothing.value, nothing.low, nothing.high))


def test_an_infinite_value_is_infinite_where_it_is_drawn():
    values = torch.tensor([[math.inf, 1.0], [0.0, 1.0], [0.0, 1.0]])
    infinite, plain = bootstrap_means(values)
    assert infinite == Estimate(math.inf, 0.0, math.inf)
    assert plain == Estimate(1.0, 1.0, 1.0)


def test_an_interval_holds_its_value_even_where_resampling_shifts_the_statistic():
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(300, generator=generator)
    outcome = confidence.clone()  # perfectly calibrated: every resample is at least as far off

    def error(weights: torch.Tensor) -> torch.Tensor:
        noise = (weights - 1).abs().mean(1)
        return sf.metrics.expected_calibration_error(confidence, outcome, weights=weights) + noise

    estimate = bootstrap(error, 300, resamples=50)
    assert estimate.low <= estimate.value <= estimate.high


def test_bad_input_is_refused_by_name():
    good = mean_of(torch.ones(3))
    with pytest.raises(sf.InvalidArgument, match="n: expected"):
        bootstrap(good, 0)
    with pytest.raises(sf.InvalidArgument, match="resamples: expected"):
        bootstrap(good, 3, resamples=0)
    with pytest.raises(sf.InvalidArgument, match="level: expected"):
        bootstrap(good, 3, level=95)
    with pytest.raises(sf.InvalidArgument, match="seed: expected"):
        resample_counts(3, 1, seed=-1)
    with pytest.raises(sf.InvalidArgument, match=r"statistic: .* shape \(1,\), got shape \(1, 3\)"):
        bootstrap(lambda weights: weights, 3)
    with pytest.raises(sf.InvalidArgument, match="statistic: .* got 0.5"):
        bootstrap(lambda weights: 0.5, 3)
    for bad in (torch.ones(3), torch.ones(0, 2), torch.tensor([[math.nan]])):
        with pytest.raises(sf.InvalidArgument, match="values: expected"):
            bootstrap_means(bad)


def of_groups(groups: int, each: int, *, generator: torch.Generator) -> torch.Tensor:
    """Values of which 80 % of the variance is between groups, (groups * each,), of mean 0."""
    between = torch.randn(groups, 1, generator=generator, dtype=torch.float64)
    within = torch.randn(groups, each, generator=generator, dtype=torch.float64)
    return (0.8**0.5 * between + 0.2**0.5 * within).flatten()


def test_groups_of_one_are_the_plain_bootstrap():
    values = torch.rand(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    statistic = lambda weights: mean_of(values)(weights.double())
    single = torch.arange(30)
    assert bootstrap(statistic, 30, groups=single) == bootstrap(statistic, 30)
    assert bootstrap_means(values[:, None], groups=single) == bootstrap_means(values[:, None])
    assert torch.equal(resample_counts(30, 5, seed=1, groups=single), resample_counts(30, 5, seed=1))


def test_groups_are_resampled_as_a_loop_over_their_members_does():
    generator = torch.Generator().manual_seed(0)
    groups = torch.tensor([4, -1, 4, 9, 9, 9, -1, 4])  # of sizes 2, 3 and 3, in no order
    values = torch.rand(8, generator=generator, dtype=torch.float64)
    members = [[1, 6], [0, 2, 7], [3, 4, 5]]
    wanted = []
    for drawn in resample_counts(3, 200, seed=5).tolist():
        again = [
            float(values[query]) for group, times in zip(members, drawn, strict=True) for query in group * int(times)
        ]
        wanted.append(sum(again) / len(again))
    ours = bootstrap_means(values[:, None], groups=groups, resamples=200, seed=5)[0]
    statistic = lambda weights: mean_of(values)(weights.double())
    also = bootstrap(statistic, 8, groups=groups, resamples=200, seed=5)
    ordered = sorted(wanted)
    low, high = ordered[int(0.025 * 199)], ordered[math.ceil(0.975 * 199)]
    for found in (ours, also):
        assert (found.value, found.low, found.high) == pytest.approx((float(values.mean()), low, high))


def test_only_resampled_groups_hold_the_truth_where_errors_come_in_groups():
    """40 groups of 10 with a correlation of 0.8 within: the design effect is 8.2."""
    generator = torch.Generator().manual_seed(0)
    groups = torch.arange(40).repeat_interleave(10)
    samples = torch.stack([of_groups(40, 10, generator=generator) for _ in range(500)], dim=1)

    def held(**how) -> float:
        estimates = bootstrap_means(samples, resamples=300, **how)
        return sum(e.low <= 0 <= e.high for e in estimates) / 500

    assert 0.90 <= held(groups=groups) <= 0.97
    assert held() < 0.6


def test_groups_that_do_not_fit_are_refused():
    for bad in (torch.zeros(2), torch.zeros(3, 1), [0, 1], [0.5, 0.5, 1]):
        with pytest.raises(sf.InvalidArgument, match="groups: expected"):
            bootstrap(mean_of(torch.ones(3)), 3, groups=bad)


def test_without_a_difference_every_p_is_as_likely():
    first, second = torch.randn(2, 300, 40, generator=torch.Generator().manual_seed(0))
    pairs = enumerate(zip(first, second, strict=True))
    p = torch.tensor([paired_test(*pair, resamples=200, seed=i).p_value for i, pair in pairs])
    for share in (0.05, 0.25, 0.5, 0.75):
        assert (p <= share).double().mean().item() == pytest.approx(share, abs=0.07)


def test_p_agrees_with_all_flips_of_a_few_differences():
    first = torch.tensor([0.9, 0.4, 0.8, 0.7, 0.6, 1.0], dtype=torch.float64)
    second = torch.tensor([0.7, 0.5, 0.5, 0.3, 0.6, 0.4], dtype=torch.float64)
    d = (first - second).tolist()
    flips = [abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in product((1, -1), repeat=6)]
    wanted = sum(flip >= sum(d) - 1e-12 for flip in flips) / 64
    ours = paired_test(first, second, resamples=20_000)
    assert ours.p_value == pytest.approx(wanted, abs=0.01)
    assert ours.difference.value == pytest.approx(sum(d) / 6)
    assert ours.difference.low < ours.difference.value < ours.difference.high


def test_equal_methods_have_p_of_one():
    same = paired_test(torch.ones(5), torch.ones(5))
    assert same.p_value == 1
    assert same.difference == Estimate(0.0, 0.0, 0.0)


def test_p_of_groups_agrees_with_all_flips_of_whole_groups():
    difference = torch.tensor([0.2, 0.4, -0.1, 0.3, 0.3, -0.2, 0.5], dtype=torch.float64)
    groups = torch.tensor([0, 0, 1, 2, 2, 2, 3])
    sums = [0.6, -0.1, 0.4, 0.5]
    flips = [abs(sum(s * x for s, x in zip(signs, sums, strict=True))) for signs in product((1, -1), repeat=4)]
    wanted = sum(flip >= sum(sums) - 1e-12 for flip in flips) / 16
    ours = paired_test(difference, torch.zeros(7), groups=groups, resamples=20_000)
    assert ours.p_value == pytest.approx(wanted, abs=0.01)
    assert ours.difference.value == pytest.approx(1.4 / 7)


def test_groups_that_cancel_but_for_rounding_are_no_difference():
    third = torch.tensor([1 / 3, 1 / 3, -2 / 3, 0.1, 0.2, -0.3], dtype=torch.float64)
    groups = torch.tensor([0, 0, 0, 1, 1, 1])
    assert paired_test(third, torch.zeros(6), groups=groups).p_value == 1


def test_a_paired_test_refuses_bad_input_by_name():
    with pytest.raises(sf.InvalidArgument, match="second: expected 2 values"):
        paired_test(torch.ones(2), torch.ones(3))
    with pytest.raises(sf.InvalidArgument, match="first: expected finite"):
        paired_test(torch.tensor([math.inf]), torch.ones(1))
