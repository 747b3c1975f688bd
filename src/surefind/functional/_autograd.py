"""Typed `apply` for custom gradients, gradients computed in the forward pass, and a bound on their size."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

LARGEST_SLOPE = 1e20  # larger gradients carry no information, and float32 overflows soon


def call(function: type[torch.autograd.Function], *inputs: Any) -> Tensor:
    """function.apply(*inputs), for functions of one output; torch leaves it untyped."""
    result: Tensor = function.apply(*inputs)
    return result


def with_slopes(compute: Callable[..., tuple[Tensor, Sequence[Tensor]]], *inputs: Tensor) -> Tensor:
    """Return the value of `compute(*inputs)`, which returns its slopes by the inputs too: no graph is kept.

    The value is a scalar, or each element of it depends on the same element of all inputs.
    """
    return call(_WithSlopes, compute, *inputs)


class _WithSlopes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, compute: Callable[..., tuple[Tensor, Sequence[Tensor]]], *inputs: Tensor) -> Tensor:
        value, slopes = compute(*inputs)
        ctx.save_for_backward(*slopes)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, *(slope * grad for slope in ctx.saved_tensors)


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
