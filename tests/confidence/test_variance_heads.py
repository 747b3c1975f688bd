"""Variance heads: shapes, the formula, and their way to a file and back."""

import math

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from surefind.confidence.variance_heads import VarianceHeads, find_directions

GENERATOR = torch.Generator().manual_seed(0)
VECTORS = torch.randn(50, 12, generator=GENERATOR) * torch.linspace(3, 0.1, 12) + 5


@pytest.fixture
def heads() -> VarianceHeads:
    directions = find_directions(VECTORS, most=4, seed=0)
    made = VarianceHeads.start(VECTORS, directions, heads=6, initial=-2.0, seed=0)
    return made.requires_grad_(False)


def by_hand(heads: VarianceHeads, vector: Tensor, head: int) -> float:
    """One vector and one head, number by number."""
    centred = vector - heads.centre
    along = [float(centred @ column) for column in heads.projection.T]
    inside = sum((z * float(std)) ** 2 for z, std in zip(along, heads.std, strict=True))
    floor, mean, std = heads.outside.tolist()
    outside = (math.log(float(centred @ centred) - inside + floor) - mean) / std
    inputs = torch.tensor([*along, outside])
    total = float(heads.bias_out[head])
    for unit in range(16):
        learned = float(inputs @ heads.weight_in[head, :, unit] + heads.bias_in[head, 0, unit])
        prior = float(inputs @ heads.prior_in[head, :, unit] + heads.prior_bias[head, 0, unit])
        total += max(learned, 0) * float(heads.weight_out[head, unit])
        total += max(prior, 0) * float(heads.prior_out[head, unit])
    return float(heads.initial) + 2 * math.asinh(total / 2)


def test_log_variances_agree_with_a_loop(heads: VarianceHeads):
    heads.bias_in.normal_(generator=GENERATOR)
    heads.bias_out.normal_(generator=GENERATOR)
    found = heads(VECTORS)
    for row in (0, 17):
        for head in range(6):
            assert float(found[row, head]) == pytest.approx(by_hand(heads, VECTORS[row], head), abs=1e-4)


def test_what_heads_read_is_white(heads: VarianceHeads):
    inputs = heads.inputs(VECTORS)
    assert torch.allclose(inputs.mean(0), torch.zeros(5), atol=1e-4)
    assert torch.allclose(inputs.T.cov()[:4, :4], torch.eye(4), atol=1e-3)
    assert float(inputs[:, 4].std()) == pytest.approx(1, abs=1e-3)


def test_the_length_outside_the_directions_is_an_input(heads: VarianceHeads):
    unseen = torch.linalg.svd(heads.projection.T).Vh[-1]  # orthogonal to all that are read
    far = VECTORS + 20 * unseen
    before, after = heads.inputs(VECTORS), heads.inputs(far)
    assert torch.allclose(before[:, :4], after[:, :4], atol=1e-3)
    assert (after[:, 4] > before[:, 4] + 3).all()


def test_var_is_the_geometric_mean_over_heads(heads: VarianceHeads):
    product = heads(VECTORS).exp().prod(dim=1) ** (1 / 6)
    assert torch.allclose(heads.var(VECTORS), product)


def test_variances_stay_finite_for_absurd_vectors(heads: VarianceHeads):
    for size in (1e6, -1e6, 0):
        absurd = torch.full((2, 12), float(size))
        assert heads.var(absurd).isfinite().all() and (heads.var(absurd) > 0).all()


def test_all_directions_may_be_read():
    directions = find_directions(VECTORS, most=12, seed=0)
    made = VarianceHeads.start(VECTORS, directions, heads=4, initial=0.0, seed=0)
    assert made.inputs(VECTORS)[:, -1].abs().max() < 0.5  # nothing is outside: no noise blown up


def test_heads_come_back_from_a_file_as_they_were(heads: VarianceHeads):
    again = VarianceHeads.from_tensors(load(save(heads.tensors())))
    assert torch.equal(again(VECTORS), heads(VECTORS))
    assert not any(parameter.requires_grad for parameter in again.parameters())
