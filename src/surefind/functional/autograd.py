"""What custom gradients share: a typed door to them, and a bound on how large they get."""

from typing import Any

import torch
from torch import Tensor

LARGEST_SLOPE = 1e20  # beyond it a gradient says nothing, and float32 overflows soon


def call(function: type[torch.autograd.Function], *inputs: Any) -> Tensor:
    """function.apply(*inputs), for functions of one output; torch leaves it untyped."""
    result: Tensor = function.apply(*inputs)
    return result


def widen(tensor: Tensor) -> Tensor:
    """In float64, with a gradient that still fits the type it came from."""
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
