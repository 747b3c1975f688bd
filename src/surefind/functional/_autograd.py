"""Typed `apply` for custom gradients, and a bound on their size."""

from typing import Any

import torch
from torch import Tensor

LARGEST_SLOPE = 1e20  # larger gradients carry no information, and float32 overflows soon


def call(function: type[torch.autograd.Function], *inputs: Any) -> Tensor:
    """function.apply(*inputs), for functions of one output; torch leaves it untyped."""
    result: Tensor = function.apply(*inputs)
    return result


def widen(tensor: Tensor) -> Tensor:
    """Convert to float64; the gradient is clamped to fit the original type."""
    return tensor if tensor.dtype == torch.float64 else call(_Widen, tensor)


class _Widen(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        ctx.dtype = tensor.dtype
        return tensor.double()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        narrow: Tensor = grad.clamp(-LARGEST_SLOPE, LARGEST_SLOPE).to(ctx.dtype)
        return narrow
