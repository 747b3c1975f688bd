"""The optimiser that a recipe asks for: rates of the groups, weight decay, what stands still."""

import pytest
import torch

from surefind.encoders import Encoder, EncoderConfig
from surefind.training.build import make_loss, make_optimiser, make_variance_optimiser
from surefind.training.recipe import LossPart, OptimiserPart


@pytest.fixture
def encoder() -> Encoder:
    return Encoder.create(EncoderConfig("tiny", dim=8))


def rate_of(optimiser: torch.optim.Optimizer, parameter: torch.Tensor) -> float:
    (group,) = (group for group in optimiser.param_groups if any(parameter is other for other in group["params"]))
    return group["lr"]


def test_backbone_mean_and_variance_have_rates_of_their_own(encoder):
    part = OptimiserPart(lr=1e-3, backbone_lr=1e-4, variance_lr=1e-2)
    optimiser = make_optimiser(encoder, part)
    for module, rate in ((encoder.backbone, 1e-4), (encoder.mean_head, 1e-3), (encoder.variance_head, 1e-2)):
        assert {rate_of(optimiser, p) for p in module.parameters()} == {rate}
    assert rate_of(optimiser, encoder.log_scale) == 1e-3
    default = make_optimiser(encoder, OptimiserPart(lr=1e-3))
    assert {rate_of(default, p) for p in encoder.parameters()} == {1e-3}


def test_weight_decay_is_adams_and_not_of_the_variance_phase(encoder):
    optimiser = make_optimiser(encoder, OptimiserPart(weight_decay=1e-2))
    assert type(optimiser) is torch.optim.Adam  # not AdamW, which decays apart from the gradient
    assert {group["weight_decay"] for group in optimiser.param_groups} == {1e-2}
    assert {group["weight_decay"] for group in make_variance_optimiser(encoder, lr=1e-3).param_groups} == {0}


def test_every_key_of_the_loss_reaches_it():
    part = LossPart(
        margin=0.3, kl_scale=1e-3, method="saddlepoint", centred=True, floor=1e-8, prior_var=0.5,
        sphere="gaussian",
    )  # fmt: skip
    loss = make_loss(part)
    for name in ("margin", "kl_scale", "method", "centred", "floor", "prior_var", "sphere"):
        assert getattr(loss, name) == getattr(part, name)
    for name in ("triplet", "triplet-regression"):
        assert make_loss(LossPart(name=name, margin=0.3)).margin == 0.3
        assert make_loss(LossPart(name=name)).margin == 0.2
    assert make_loss(LossPart()).margin == 0
