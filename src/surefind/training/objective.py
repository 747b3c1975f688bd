"""The loss and the optimiser that a recipe asks for."""

from collections.abc import Sequence

import torch
from torch import nn

from surefind.encoders.encoder import Encoder
from surefind.errors import InvalidArgument
from surefind.losses import (
    BayesianTripletLoss,
    TripletCriterion,
    TripletLoss,
    TripletRegressionLoss,
)
from surefind.training.recipe import LossPart, OptimiserPart


def make_loss(part: LossPart) -> TripletCriterion:
    if part.name == "triplet":
        return TripletLoss(loss_margin(part))
    if part.name == "triplet-regression":
        return TripletRegressionLoss(loss_margin(part))
    return BayesianTripletLoss(
        loss_margin(part),
        part.kl_scale,
        part.method,
        part.centred,
        floor=part.floor,
        prior_var=part.prior_var,
        sphere=part.sphere,
    )


def loss_margin(part: LossPart) -> float:
    """The margin of the loss, which mining uses as well."""
    if part.margin is not None:
        return part.margin
    return 0.0 if part.name == "bayesian" else 0.2


def make_optimiser(encoder: Encoder, part: OptimiserPart) -> torch.optim.Adam:
    """Adam over backbone, mean head and variance head, each with its learning rate."""
    freeze_backbone(encoder, part)
    variance = [] if encoder.variance_head is None else list(encoder.variance_head.parameters())
    backbone = list(encoder.backbone.parameters())
    apart = {id(parameter) for parameter in [*variance, *backbone]}
    groups = (
        ([p for p in encoder.parameters() if id(p) not in apart], part.lr),
        (backbone, part.lr if part.backbone_lr is None else part.backbone_lr),
        (variance, part.lr if part.variance_lr is None else part.variance_lr),
    )
    return _adam(groups, part.weight_decay)


def make_variance_optimiser(encoder: Encoder, *, lr: float) -> torch.optim.Adam:
    """Adam over the variance head; everything else stands still."""
    assert encoder.variance_head is not None
    encoder.requires_grad_(False)
    encoder.variance_head.requires_grad_(True)
    return _adam([(list(encoder.variance_head.parameters()), lr)], weight_decay=0.0)


def _adam(
    groups: Sequence[tuple[list[nn.Parameter], float]], weight_decay: float
) -> torch.optim.Adam:
    trained = [([p for p in parameters if p.requires_grad], lr) for parameters, lr in groups]
    return torch.optim.Adam(
        [{"params": some, "lr": lr, "initial_lr": lr} for some, lr in trained if some],
        weight_decay=weight_decay,
    )


def freeze_backbone(encoder: Encoder, part: OptimiserPart) -> None:
    """Stop the gradient of the backbone, or of those of its parameters that the recipe names."""
    encoder.requires_grad_(True)
    if part.freeze == "backbone":
        encoder.backbone.requires_grad_(False)
    for start in part.freeze_first:
        # timm's model sits inside ours; a recipe names parameters as timm does.
        named = [
            parameter
            for name, parameter in encoder.backbone.named_parameters()
            if name.removeprefix("model.").startswith(start)
        ]
        if not named:
            known = dict.fromkeys(
                name.removeprefix("model.").split(".")[0]
                for name, _ in encoder.backbone.named_parameters()
            )
            raise InvalidArgument(
                "optimiser.freeze_first",
                expected=f"starts of parameter names of {encoder.config.backbone}",
                got=repr(start),
                fix="its parts are " + ", ".join(known),
            )
        for parameter in named:
            parameter.requires_grad_(False)


def train_mode(encoder: Encoder, *, batch_norm: str) -> None:
    """Dropout on; running statistics of batch norm stand still unless they are to be trained."""
    encoder.train()
    if batch_norm == "frozen":
        for module in encoder.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
