"""How often the loss shrinks the variances of a well-ordered triplet."""

import pytest
import torch

from surefind.embeddings import Gaussians
from surefind.functional import triplet_log_prob, triplet_moments
from surefind.reports.figures import variance_gradients
from surefind.reports.figures.variance_gradients import draw_variance_gradients, shrunk_variances


@pytest.mark.parametrize("dim", [1, 16])
def test_the_variance_of_the_negative_shrinks_only_where_the_order_is_clear(dim: int):
    """By the paper's approximation: where -2 E[tau] (D (A + N) + d_an) > D Var[tau]."""
    generator = torch.Generator().manual_seed(1)
    mean = torch.randn(3, 500, dim, generator=generator, dtype=torch.float64)
    var = torch.randn(3, 500, generator=generator, dtype=torch.float64).abs().requires_grad_()
    a, p, n = (Gaussians(*each) for each in zip(mean, var, strict=True))
    (pull,) = torch.autograd.grad(triplet_log_prob(a, p, n).sum(), var)
    with torch.no_grad():
        expectation, variance = triplet_moments(a, p, n)
        d_an = (a.mean - n.mean).square().sum(1)
        clear = -2 * expectation * (dim * (a.var + n.var) + d_an) > dim * variance
    assert torch.equal(pull[2] < 0, clear)
    assert 0 < int(clear.sum()) < 500


def test_the_papers_claim_holds_for_a_third_of_triplets_on_a_line_and_for_few_in_128_dimensions():
    on_a_line = shrunk_variances(1, triplets=20_000)
    assert on_a_line.all == pytest.approx(0.326, abs=0.01)
    assert on_a_line.positive > 0.99
    assert on_a_line.negative == pytest.approx(on_a_line.all, abs=0.01)
    assert shrunk_variances(128, triplets=5_000).all < 0.005


def test_by_the_exact_law_it_holds_for_just_under_half_on_a_line():
    assert shrunk_variances(1, method="exact", triplets=2000).all == pytest.approx(0.46, abs=0.04)


def test_it_holds_for_sharp_triplets():
    assert shrunk_variances(1, scale=1e-3, triplets=5_000).all > 0.97


def test_shares_agree_with_the_signs_of_the_loss_itself():
    """They are counted by the probability of the wrong order, which keeps its digits."""
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(3, 300, 4, generator=generator, dtype=torch.float64)
    var = torch.randn(3, 300, generator=generator, dtype=torch.float64).abs() + 1e-3
    counted = []
    for m, v in zip(mean.unbind(1), var.unbind(1), strict=True):
        if (m[0] - m[1]).square().sum() >= (m[0] - m[2]).square().sum():
            continue
        v = v.clone().requires_grad_()
        a, p, n = (Gaussians(m[i].view(1, 4), v[i].view(1)) for i in range(3))
        (pull,) = torch.autograd.grad(triplet_log_prob(a, p, n).sum(), v)
        counted.append((pull < 0).tolist())
    expected = [sum(column) / len(counted) for column in zip(*counted, strict=True)]
    found = shrunk_variances(4, triplets=300)
    assert list(found[:3]) == pytest.approx(expected)
    assert found.all == pytest.approx(sum(map(all, counted)) / len(counted))


def test_the_figure_tells_the_shares_by_dimension_and_method(monkeypatch):
    monkeypatch.setattr(variance_gradients, "DIMENSIONS", (1, 2))
    monkeypatch.setattr(variance_gradients, "SCALES", (0.1, 1.0))
    monkeypatch.setattr(variance_gradients, "_TRIPLETS", {"clt": 400, "exact": 60})
    figure, table = draw_variance_gradients()
    assert set(table) == {"1", "2"}
    assert table["2"]["clt"] == shrunk_variances(2, triplets=400).all
    left, right = figure.axes
    assert [len(axis.get_lines()) for axis in (left, right)] == [3 * 2 + 1, 3 * 2 + 1]
