"""The whole grid of extremes, not a sample of it (make faults)."""

import itertools

import pytest
import torch

import surefind as sf

LABELS = torch.tensor([0, 0, 1, 1, 2, 2, 2])
SCALES = (0.0, 1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e5)
SPREADS = (1e-12, 1e-8, 1e-4, 1.0, 1e4, 1e9)
MARGINS = (-1e4, -1.0, 0.0, 1e-3, 1.0, 1e4)


@pytest.mark.faults
@pytest.mark.parametrize("dim", [1, 2, 3, 16, 128, 511, 2047])
@pytest.mark.parametrize("method", ["clt", "saddlepoint"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("family", ["gaussian", "sphere"])
def test_no_loss_and_no_gradient_is_ever_not_finite(family, dtype, method, dim: int):
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(len(LABELS), dim, generator=generator, dtype=torch.float64)
    scales = SCALES if family == "gaussian" else (0.0, 1.0)
    if family == "sphere" and dim == 1:
        pytest.skip("a sphere has at least two dimensions")
    bad = []
    for scale, low, high, margin in itertools.product(scales, SPREADS, SPREADS, MARGINS):
        mean = scale * direction
        if family == "sphere":
            mean = torch.nn.functional.normalize(direction[:1] + scale * direction, dim=1)
        mean = mean.to(dtype).requires_grad_()
        spread = torch.full((len(LABELS),), low, dtype=dtype)
        spread[::3] = high
        spread.requires_grad_()
        loss = sf.losses.BayesianTripletLoss(margin=margin, method=method)
        batch = (
            sf.Gaussians(mean, spread)
            if family == "gaussian"
            else sf.VonMisesFisher(mean, 1 / spread)
        )
        value = loss(batch, LABELS)
        value.backward()
        if not all(bool(x.isfinite().all()) for x in (value, mean.grad, spread.grad)):
            bad.append((scale, low, high, margin))
    assert bad == []
