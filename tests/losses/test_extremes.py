"""Valid embeddings never give a loss or a gradient that is not finite."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import surefind as sf

LABELS = torch.tensor([0, 0, 1, 1, 2, 2, 2])
SCALES = st.sampled_from([0.0, 1e-6, 1e-3, 1.0, 1e3, 1e5])
VARIANCES = st.sampled_from([1e-12, 1e-8, 1e-6, 1e-3, 1.0, 1e3, 1e8])
MARGINS = st.sampled_from([-1e4, -1.0, 0.0, 1e-3, 1.0, 1e4])
DTYPES = st.sampled_from([torch.float32, torch.float64])
DIMS = st.sampled_from([1, 2, 3, 64, 511])
METHODS = st.sampled_from(["clt", "saddlepoint"])


def check(loss: torch.nn.Module, make, *leaves: torch.Tensor) -> None:
    for leaf in leaves:
        leaf.requires_grad_()
    value = loss(make(*leaves), LABELS)
    value.backward()
    assert value.isfinite(), value
    for leaf in leaves:
        assert leaf.grad is not None
        assert leaf.grad.isfinite().all(), (value, leaf.grad)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(SCALES, VARIANCES, VARIANCES, MARGINS, DTYPES, DIMS, METHODS, st.booleans(), st.booleans())
def test_gaussians(scale, var, other_var, margin, dtype, dim, method, centred, duplicated):
    generator = torch.Generator().manual_seed(0)
    mean = scale * torch.randn(len(LABELS), dim, generator=generator, dtype=torch.float64)
    if duplicated:
        mean[1::2] = mean[0]
    spread = torch.full((len(LABELS),), var, dtype=torch.float64)
    spread[::3] = other_var
    loss = sf.losses.BayesianTripletLoss(margin=margin, method=method, centred=centred)
    check(loss, sf.Gaussians, mean.to(dtype), spread.to(dtype))
    moments = sf.functional.triplet_moments(*(sf.Gaussians(mean, spread)[i : i + 5] for i in range(3)))
    assert (moments.var > 0).all()


@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    st.sampled_from([1e-9, 1e-3, 1.0, 30.0, 1e3, 1e6, 1e9, 1e12]),
    st.sampled_from([1e-9, 1e-3, 1.0, 30.0, 1e3, 1e6, 1e9, 1e12]),
    MARGINS,
    DTYPES,
    st.sampled_from([2, 3, 64, 511]),
    METHODS,
    st.booleans(),
    st.sampled_from(["exact", "gaussian"]),
    st.booleans(),
)
def test_spheres(kappa, other, margin, dtype, dim, method, centred, sphere, duplicated):
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(len(LABELS), dim, generator=generator, dtype=torch.float64)
    if duplicated:
        mean[1::2] = mean[0]
    mean = torch.nn.functional.normalize(mean, dim=1)
    spread = torch.full((len(LABELS),), kappa, dtype=torch.float64)
    spread[::3] = other
    loss = sf.losses.BayesianTripletLoss(margin=margin, method=method, centred=centred, sphere=sphere)
    check(loss, sf.VonMisesFisher, mean.to(dtype), spread.to(dtype))
    batch = sf.VonMisesFisher(mean.to(dtype), spread.to(dtype))
    assert (sf.functional.triplet_moments(batch[:5], batch[1:6], batch[2:]).var > 0).all()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(SCALES, VARIANCES, MARGINS, DTYPES, st.sampled_from(["sum", "image"]))
def test_baselines(scale, var, margin, dtype, pooling):
    generator = torch.Generator().manual_seed(0)
    mean = (scale * torch.randn(len(LABELS), 8, generator=generator)).to(dtype)
    spread = torch.full((len(LABELS),), var, dtype=dtype)
    check(sf.losses.TripletRegressionLoss(margin, pooling=pooling), sf.Gaussians, mean, spread)
    check(sf.losses.TripletLoss(margin), lambda m: m, mean.detach().clone())


def test_variances_stay_positive_in_float32_when_embeddings_are_sharp():
    """Where the expanded polynomial of the paper goes negative in more than half of the cases."""
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(1, 64, generator=generator)
    a, p, n = (base + 1e-3 * torch.randn(2000, 64, generator=generator) for _ in range(3))
    v = torch.full((2000,), 1e-6)
    batch = [sf.Gaussians(mean, v) for mean in (a, p, n)]
    ours = sf.functional.triplet_moments(*batch).var
    exact = sf.functional.triplet_moments(*(b.to(torch.float64) for b in batch)).var
    torch.testing.assert_close(ours.double(), exact, rtol=1e-4, atol=0)
    w = v[:, None]
    of_p = w**2 + 2 * p**2 * w + 2 * (w + a**2) * (w + p**2) - 2 * a**2 * p**2 - 4 * a * p * w
    of_n = w**2 + 2 * n**2 * w + 2 * (w + a**2) * (w + n**2) - 2 * a**2 * n**2 - 4 * a * n * w
    expanded = (2 * of_p + 2 * of_n - 8 * p * n * w).sum(1)
    assert (expanded <= 0).double().mean() > 0.4


@pytest.mark.parametrize("method", ["clt", "saddlepoint"])
def test_a_network_in_bfloat16_trains(method: str):
    """Under autocast the network is in bfloat16; the loss is not, whatever the context says."""
    generator = torch.Generator().manual_seed(0)
    network = torch.nn.Linear(16, 9)
    x = torch.randn(len(LABELS), 16, generator=generator)
    loss = sf.losses.BayesianTripletLoss(method=method, margin=1e4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = network(x)
        assert out.dtype == torch.bfloat16
        out = out.float()
        batch = sf.Gaussians(out[:, :8], torch.nn.functional.softplus(out[:, 8]) + 1e-6)
        inside = loss(batch, LABELS)
        inside.backward()
    torch.testing.assert_close(inside, loss(batch, LABELS))
    assert network.weight.grad is not None
    assert network.weight.grad.isfinite().all()


@pytest.mark.parametrize("method", ["clt", "saddlepoint"])
def test_identical_embeddings_give_one_half_and_a_gradient(method: str):
    mean = torch.zeros(7, 16, requires_grad=True)
    var = torch.ones(7, requires_grad=True)
    value = sf.losses.BayesianTripletLoss(kl_scale=0.0, method=method)(sf.Gaussians(mean, var), LABELS)
    value.backward()
    assert value.item() == pytest.approx(0.6931, abs=1e-3)
    assert mean.grad is not None
    assert mean.grad.isfinite().all()


@pytest.mark.faults
@pytest.mark.parametrize("dim", [1, 2, 3, 16, 128, 511, 2047])
@pytest.mark.parametrize("method", ["clt", "saddlepoint"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("family", ["gaussian", "sphere"])
def test_the_whole_grid_of_extremes(family, dtype, method, dim: int):
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(len(LABELS), dim, generator=generator, dtype=torch.float64)
    scales = (0.0, 1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e5) if family == "gaussian" else (0.0, 1.0)
    variances, margins = (1e-12, 1e-8, 1e-4, 1.0, 1e4, 1e9), (-1e4, -1.0, 0.0, 1e-3, 1.0, 1e4)
    if family == "sphere" and dim == 1:
        pytest.skip("a sphere has at least two dimensions")
    bad = []
    for scale, low, high, margin in itertools.product(scales, variances, variances, margins):
        mean = scale * direction
        if family == "sphere":
            mean = torch.nn.functional.normalize(direction[:1] + scale * direction, dim=1)
        mean = mean.to(dtype).requires_grad_()
        spread = torch.full((len(LABELS),), low, dtype=dtype)
        spread[::3] = high
        spread.requires_grad_()
        loss = sf.losses.BayesianTripletLoss(margin=margin, method=method)
        batch = sf.Gaussians(mean, spread)
        if family == "sphere":
            batch = sf.VonMisesFisher(mean, 1 / spread)
        value = loss(batch, LABELS)
        value.backward()
        if not all(bool(x.isfinite().all()) for x in (value, mean.grad, spread.grad)):
            bad.append((scale, low, high, margin))
    assert bad == []
