"""Generalised-mean pooling against its definition, at ordinary and extreme values."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from surefind.encoders.heads import FLOOR, GeM, log_map, pool


def gem(features: torch.Tensor, p: torch.Tensor | float) -> torch.Tensor:
    return pool(log_map(features), p)


def naive(features: torch.Tensor, p: float) -> torch.Tensor:
    """One number at a time, in Python's own floats."""
    pooled = torch.empty(features.shape[:2], dtype=torch.float64)
    for image, channels in enumerate(features.tolist()):
        for channel, rows in enumerate(channels):
            values = [max(value, FLOOR) for row in rows for value in row]
            mean_power = math.fsum(value**p for value in values) / len(values)
            pooled[image, channel] = mean_power ** (1 / p)
    return pooled


@pytest.mark.parametrize("p", [1.5, 3.0, 7.25])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_pooling_agrees_with_a_plain_loop(p, layout):
    features = torch.randn(2, 8, 3, 4, generator=torch.Generator().manual_seed(0))
    pooled = gem(features.contiguous(memory_format=layout), p)
    torch.testing.assert_close(pooled.double(), naive(features, p), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("p", [1.0, 3.0, 20.0])
@pytest.mark.parametrize("largest", [1e-9, 1.0, 1e3])
def test_float32_survives_large_values_and_powers(p, largest):
    features = largest * torch.rand(2, 4, 7, 7, generator=torch.Generator().manual_seed(0))
    features.requires_grad_()
    power = torch.tensor(p, requires_grad=True)
    pooled = gem(features, power)
    torch.testing.assert_close(pooled.double(), naive(features.detach(), p), rtol=1e-4, atol=0)
    pooled.sum().backward()
    assert features.grad.isfinite().all() and power.grad.isfinite()


def test_gradients_agree_with_differences():
    features = torch.rand(2, 3, 2, 3, dtype=torch.float64) + 0.1
    power = torch.tensor(2.5, dtype=torch.float64, requires_grad=True)
    assert gradcheck(gem, (features.requires_grad_(), power))


def test_features_are_not_changed_without_gradients():
    features = torch.rand(2, 3, 4, 4)
    before = features.clone()
    with torch.inference_mode():
        gem(features, 3.0)
    assert torch.equal(features, before)


def test_the_power_starts_where_asked_and_is_learnt_above_one():
    for p in (1.001, 3.0, 1e3):
        assert GeM(p).p.item() == pytest.approx(p, rel=1e-6)
    layer = GeM()
    layer(log_map(torch.rand(1, 2, 3, 3))).sum().backward()
    assert layer.raw_p.grad != 0
    with torch.no_grad():
        layer.raw_p.fill_(-1e9)
    assert layer.p.item() == 1.0
    assert "p=1" in repr(layer)


def test_a_constant_map_pools_to_its_constant():
    torch.testing.assert_close(gem(torch.full((1, 2, 5, 5), 0.7), 4.0), torch.full((1, 2), 0.7))


def test_a_large_power_is_the_maximum():
    features = torch.rand(3, 4, 6, 6)
    torch.testing.assert_close(gem(features, 1e4), features.amax((2, 3)), rtol=1e-3, atol=0)
