"""Generalised-mean pooling: from a map of features to one vector per image."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from surefind.errors import InvalidArgument

FLOOR = 1e-6  # features are at least this large, so that they have a logarithm


class LogMap(NamedTuple):
    """Logarithms (base 2) of a feature map, computed once for all heads that pool it."""

    relative: Tensor  # (N, C, positions), to the largest of the channel: never above 0
    largest: Tensor  # (N, C)


def log_map(features: Tensor) -> LogMap:
    """The logarithms of max(features, FLOOR), of a map (N, C, H, W)."""
    positive = features.clamp(min=FLOOR).flatten(2)
    logs = positive.log2() if positive.requires_grad else positive.log2_()
    # The pooled value does not depend on the reference, so neither does the gradient.
    largest = logs.detach().amax(dim=2, keepdim=True)
    relative = logs - largest if logs.requires_grad else logs.sub_(largest)
    return LogMap(relative, largest.squeeze(2))


def pool(logs: LogMap, p: Tensor | float) -> Tensor:
    r"""Generalised mean over positions, (N, C).

        (mean x^p)^(1/p) = 2^(m + log(mean 2^(p (log x - m))) / p),    m = max log x, to base 2

    Relative to the largest value nothing overflows (1000^20 would). One logarithm serves every
    head: 2^(p log x) measures 10 times as fast as x^p, and twice as fast as with base e.
    """
    mean_power = (p * logs.relative).exp2_().mean(dim=2)
    return (logs.largest + mean_power.log2() / p).exp2()


def gem(features: Tensor, p: Tensor | float) -> Tensor:
    """Generalised mean of the positive part of a map (N, C, H, W), (N, C).

    >>> gem(torch.tensor([3.0, 4.0]).reshape(1, 1, 1, 2), 2.0)  # sqrt((9 + 16) / 2)
    tensor([[3.5355]])
    """
    return pool(log_map(features), p)


def inverse_softplus(value: float) -> float:
    """x with log(1 + exp(x)) = value > 0; neither large nor small values overflow."""
    return value + math.log(-math.expm1(-value))


class GeM(nn.Module):
    """Generalised-mean pooling with a learnable power.

    p = 1 + softplus(raw_p): always between average (1) and maximum (infinity) pooling, and its
    gradient never dies at a bound.
    """

    def __init__(self, p: float = 3.0) -> None:
        super().__init__()
        if not 1 < p < float("inf"):
            raise InvalidArgument(
                "p", expected="a finite power above 1", got=repr(p), fix="3 is the usual start"
            )
        self.raw_p = nn.Parameter(torch.tensor(inverse_softplus(p - 1)))

    @property
    def p(self) -> Tensor:
        return 1 + functional.softplus(self.raw_p)

    def forward(self, features: Tensor) -> Tensor:
        return self.pool(log_map(features))

    def pool(self, logs: LogMap) -> Tensor:
        return pool(logs, self.p)

    def extra_repr(self) -> str:
        return f"p={self.p.item():.3g}"
