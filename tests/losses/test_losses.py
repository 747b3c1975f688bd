"""The losses against plain loops, and what every torch criterion must do."""

import itertools

import pytest
import torch
from sampling import Draw

import surefind as sf
from surefind.functional import kl_to_prior, triplet_log_prob
from surefind.losses.base import Scalars

LABELS = torch.tensor([0, 0, 1, 1, 1, 2, 2, 3, 0, 1, 2, 4])
VARIANTS = [
    {},
    {"margin": 0.1, "centred": True},
    {"method": "saddlepoint"},
    {"method": "exact", "sphere": "gaussian"},
    {"sphere": "gaussian"},
    {"floor": 1e-8},
]


def every_triplet(labels: torch.Tensor) -> torch.Tensor:
    rows = range(len(labels))
    return torch.tensor(
        [
            (a, p, n)
            for a, p, n in itertools.product(rows, rows, rows)
            if a != p and labels[a] == labels[p] and labels[a] != labels[n]
        ]
    ).T


def batch_of(draw: Draw, family: str) -> sf.Embeddings:
    return getattr(draw, family)(len(LABELS), 5)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_the_bayesian_loss_is_the_mean_over_a_plain_loop(family: str, options: dict, draw: Draw):
    batch = batch_of(draw, family)
    loss = sf.losses.BayesianTripletLoss(kl_scale=1e-2, **options)
    floor = options.get("floor", 0.0)
    passed_on = {name: value for name, value in options.items() if name != "floor"}
    divergence, costs = kl_to_prior(batch), []
    triplets = every_triplet(LABELS)
    for a, p, n in triplets.T.tolist():
        log_prob = triplet_log_prob(batch[a], batch[p], batch[n], **passed_on)
        cost = -torch.log(log_prob.exp() + floor)
        costs.append(cost + 1e-2 * (divergence[a] + divergence[p] + divergence[n]))
    wanted = torch.cat(costs).mean()
    torch.testing.assert_close(loss(batch, LABELS), wanted, rtol=1e-9, atol=0)
    torch.testing.assert_close(loss(batch, triplets=tuple(triplets)), wanted, rtol=1e-9, atol=0)
    torch.testing.assert_close(loss(batch, LABELS, tuple(triplets)), wanted, rtol=1e-9, atol=0)


def hinges(batch: sf.Embeddings, margin: float) -> torch.Tensor:
    return torch.stack(
        [
            (
                (batch.mean[a] - batch.mean[p]).square().sum() - (batch.mean[a] - batch.mean[n]).square().sum() + margin
            ).clamp(min=0)
            for a, p, n in every_triplet(LABELS).T.tolist()
        ]
    )


def test_the_triplet_loss_is_the_mean_hinge(draw: Draw):
    batch = batch_of(draw, "gaussians")
    wanted = hinges(batch, 0.3).mean()
    loss = sf.losses.TripletLoss(margin=0.3)
    torch.testing.assert_close(loss(batch, LABELS), wanted)
    torch.testing.assert_close(loss(batch.mean, LABELS), wanted)


@pytest.mark.parametrize("pooling", ["sum", "image"])
def test_triplet_regression_agrees_with_a_plain_loop(pooling: str, draw: Draw):
    batch = batch_of(draw, "gaussians")
    assert isinstance(batch, sf.Gaussians)
    costs = []
    for hinge, triplet in zip(hinges(batch, 0.2), every_triplet(LABELS).T.tolist(), strict=True):
        noises = [batch.var[i] for i in triplet]
        if pooling == "sum":
            noises = [torch.stack(noises).sum()]
        costs.append(torch.stack([hinge / (2 * s) + 0.5 * s.log() for s in noises]).mean())
    loss = sf.losses.TripletRegressionLoss(pooling=pooling)
    torch.testing.assert_close(loss(batch, LABELS), torch.stack(costs).mean())
    sphere = batch_of(draw, "spheres")
    assert isinstance(sphere, sf.VonMisesFisher)
    torch.testing.assert_close(loss(sphere, LABELS), loss(sphere.as_gaussians(), LABELS))


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
@pytest.mark.parametrize("chunk", [12, 24, 1 << 20])
def test_chunks_change_neither_value_nor_gradient(family: str, chunk: int, draw: Draw):
    batch = batch_of(draw, family)
    results = []
    for size in (chunk, 1 << 18):
        spread = batch.spread.clone().requires_grad_()
        loss = sf.losses.BayesianTripletLoss(method="saddlepoint")
        loss.chunk = size
        value = loss(type(batch)(batch.mean, spread), LABELS)
        value.backward()
        results.append((value.detach(), spread.grad))
    torch.testing.assert_close(results[0], results[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "loss",
    [
        *(sf.losses.BayesianTripletLoss(kl_scale=0.01, method=m) for m in ("clt", "saddlepoint", "exact")),
        sf.losses.BayesianTripletLoss(centred=True, floor=1e-3),
        sf.losses.TripletRegressionLoss(),
        sf.losses.TripletRegressionLoss(pooling="image"),
        sf.losses.TripletLoss(),
    ],
    ids=str,
)
def test_gradcheck_for_all_triplets_and_for_few(loss, draw: Draw):
    batch = draw.gaussians(6, 3)
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    leaves = [x.clone().requires_grad_() for x in (batch.mean, batch.var)]
    few = (torch.tensor([0, 2]), torch.tensor([1, 3]), torch.tensor([5, 0]))
    checked = {"eps": 1e-5, "atol": 1e-6, "rtol": 1e-4}
    assert torch.autograd.gradcheck(lambda m, v: loss(sf.Gaussians(m, v), labels), leaves, **checked)
    assert torch.autograd.gradcheck(lambda m, v: loss(sf.Gaussians(m, v), triplets=few), leaves, **checked)


@pytest.mark.parametrize("method", ["clt", "saddlepoint"])
def test_gradcheck_on_the_sphere(method: str, draw: Draw):
    batch = draw.spheres(6, 3)
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    leaves = [x.clone().requires_grad_() for x in (batch.mean, batch.kappa)]
    loss = sf.losses.BayesianTripletLoss(kl_scale=0.01, method=method)
    unit = torch.nn.functional.normalize
    function = lambda m, k: loss(sf.VonMisesFisher(unit(m, dim=1), k), labels)
    assert torch.autograd.gradcheck(function, leaves, eps=1e-5, atol=1e-6, rtol=1e-4)


def test_the_gradient_of_a_hard_triplet_is_alive_unless_a_floor_kills_it():
    """Ten standard deviations on the wrong side, the slope of -log P by z is ten."""
    number = lambda x: torch.tensor([x], dtype=torch.float64)
    for floor, lower, upper in ((0.0, 10, 10.2), (1e-8, 0, 1e-12)):
        d_ap = number(1.0).requires_grad_()
        # d_an = 0 and nearly all variance in the anchor: Var = 4 a d_pn = 0.01
        scalars = Scalars(d_ap, number(0.0), number(1.0), (number(0.0025),), (number(1e-12),), (number(1e-12),))
        loss = sf.losses.BayesianTripletLoss(kl_scale=0.0, floor=floor)
        loss.cost(scalars, dim=1).backward()
        assert d_ap.grad is not None
        assert lower <= 0.1 * d_ap.grad.item() <= upper


def test_forward_is_a_scalar_of_the_dtype_of_the_embeddings(draw: Draw):
    batch = batch_of(draw, "gaussians")
    for dtype in (torch.float32, torch.float64):
        for loss in (sf.losses.BayesianTripletLoss(), sf.losses.TripletLoss()):
            value = loss(batch.to(dtype), LABELS)
            assert value.ndim == 0
            assert value.dtype == dtype


def test_a_module_shows_its_settings():
    assert "method='saddlepoint', centred=True" in repr(
        sf.losses.BayesianTripletLoss(method="saddlepoint", centred=True)
    )
    assert repr(sf.losses.TripletLoss(0.3)) == "TripletLoss(margin=0.3)"


def test_diagnose_agrees_with_the_moments_of_all_triplets(draw: Draw):
    batch = batch_of(draw, "gaussians")
    loss = sf.losses.BayesianTripletLoss(kl_scale=0.0)
    info = loss.diagnose(batch, LABELS)
    a, p, n = every_triplet(LABELS)
    order = sf.functional.triplet_moments(batch[a], batch[p], batch[n], centred=True).mean
    std = sf.functional.triplet_moments(batch[a], batch[p], batch[n]).var.sqrt()
    assert info.triplets == len(a)
    assert info.win_rate == pytest.approx((order < 0).double().mean().item())
    assert info.median_std == pytest.approx(std.median().item())
    assert info.cost == pytest.approx(loss(batch, LABELS).item())
    assert info.kl == pytest.approx(kl_to_prior(batch).mean().item())
    given = loss.diagnose(batch, triplets=(a, p, n))
    assert given.median_std == pytest.approx(info.median_std)
    assert sf.losses.TripletLoss().diagnose(batch.mean, LABELS).median_std == 0
    assert sf.losses.TripletRegressionLoss().diagnose(batch, LABELS).median_std > 0
