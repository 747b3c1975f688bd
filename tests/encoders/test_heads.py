"""Heads: pooling, shapes, the first variances, and a start from principal directions."""

import math

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional

from surefind.encoders.heads import FLOOR, GeM, MeanHead, VarianceHead, log_map, pool


@pytest.fixture
def features() -> torch.Tensor:
    return torch.rand(6, 20, 4, 4, generator=torch.Generator().manual_seed(0))


def pooled_like_features(images: int, channels: int) -> torch.Tensor:
    """Positive vectors of nearly equal lengths, as pooled features are."""
    generator = torch.Generator().manual_seed(0)
    return 3 * functional.normalize(torch.rand(images, channels, generator=generator), dim=1)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_variance_head_is_gem_two_layers_with_relu_and_softplus(features, layer_norm):
    head = VarianceHead(20, layer_norm=layer_norm, initial=0.5, floor=1e-3)
    pooled = features.pow(head.gem.p).mean((2, 3)).pow(1 / head.gem.p)
    if layer_norm:
        centred = pooled - pooled.mean(1, keepdim=True)
        pooled = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
    hidden = pooled @ head.hidden.weight.T + head.hidden.bias
    assert (hidden < -0.01).any()  # so that the rectifier matters
    last = hidden.clamp(min=0) @ head.last.weight.T + head.last.bias
    torch.testing.assert_close(head(log_map(features)), last.exp().add(1).log().squeeze(1) + 1e-3)


def test_the_mean_head_is_gem_and_one_layer_with_or_without_a_length(features):
    for unit_pooling in (False, True):
        head = MeanHead(20, 7, unit_pooling=unit_pooling)
        pooled = features.pow(head.gem.p).mean((2, 3)).pow(1 / head.gem.p)
        if unit_pooling:
            pooled = pooled / pooled.norm(dim=1, keepdim=True)
        torch.testing.assert_close(head(log_map(features)), pooled @ head.linear.weight.T + head.linear.bias)


@pytest.mark.parametrize("initial", [1e-4, 0.1, 30.0, 1e6])
def test_variances_begin_near_the_chosen_value(features, initial):
    var = VarianceHead(20, initial=initial, floor=1e-6)(log_map(features))
    torch.testing.assert_close(var, torch.full((6,), initial), rtol=0.2, atol=0)


def test_no_variance_is_below_the_floor(features):
    head = VarianceHead(20, floor=1e-3, initial=1e-2)
    with torch.no_grad():
        head.last.bias.fill_(-1e4)
    assert torch.equal(head(log_map(features)), torch.full((6,), 1e-3))


@pytest.mark.parametrize("unit_pooling", [False, True])
def test_the_pca_start_keeps_the_distances_of_the_pooled_features(unit_pooling):
    pooled = pooled_like_features(50, 20)
    head = MeanHead(20, 20, unit_pooling=unit_pooling)
    head.start_from_pca(pooled)
    seen = functional.normalize(pooled, dim=1) if unit_pooling else pooled
    torch.testing.assert_close(torch.pdist(head.linear(seen)), torch.pdist(seen))


def test_the_pca_start_is_centred_and_its_directions_are_ordered_by_variance():
    pooled = pooled_like_features(50, 20)
    head = MeanHead(20, 5)
    head.start_from_pca(pooled)
    outputs = head.linear(functional.normalize(pooled, dim=1)).detach()
    torch.testing.assert_close(outputs.mean(0), torch.zeros(5), rtol=0, atol=1e-5)
    assert torch.equal(outputs.var(0).argsort(descending=True), torch.arange(5))


def test_directions_beyond_the_rank_start_small_but_not_at_zero():
    pooled = pooled_like_features(4, 20)  # centred, four images span three directions
    head = MeanHead(20, 30)
    head.start_from_pca(pooled)
    lengths = head.linear.weight.detach().norm(dim=1)
    torch.testing.assert_close(lengths[:3], torch.ones(3))
    assert (lengths[3:] > 0).all() and (lengths[3:] < 0.03).all()


def gem(features: torch.Tensor, p: torch.Tensor | float) -> torch.Tensor:
    return pool(log_map(features), p)


def naive_pool(features: torch.Tensor, p: float) -> torch.Tensor:
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
    torch.testing.assert_close(pooled.double(), naive_pool(features, p), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("p", [1.0, 3.0, 20.0])
@pytest.mark.parametrize("largest", [1e-9, 1.0, 1e3])
def test_float32_survives_large_values_and_powers(p, largest):
    features = largest * torch.rand(2, 4, 7, 7, generator=torch.Generator().manual_seed(0))
    features.requires_grad_()
    power = torch.tensor(p, requires_grad=True)
    pooled = gem(features, power)
    torch.testing.assert_close(pooled.double(), naive_pool(features.detach(), p), rtol=1e-4, atol=0)
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


def test_a_large_power_is_the_maximum():
    features = torch.rand(3, 4, 6, 6)
    torch.testing.assert_close(gem(features, 1e4), features.amax((2, 3)), rtol=1e-3, atol=0)
