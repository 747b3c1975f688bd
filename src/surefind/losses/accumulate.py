"""A sum over many triplets in bounded memory, with its gradient."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from surefind.functional.autograd import call

Term = Callable[..., Tensor]  # (chunk, *inputs) -> scalar


def sum_over_chunks(term: Term, chunks: Iterator[Any], *inputs: Tensor) -> Tensor:
    """The sum of term(chunk, *inputs) over all chunks, a float64 scalar.

    The gradient of a chunk is taken at once and added up, so that memory is that of one chunk and
    nothing is computed twice.
    """
    return call(_SumOverChunks, term, chunks, *inputs)


class _SumOverChunks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, term: Term, chunks: Iterator[Any], *inputs: Tensor) -> Tensor:
        wanted = [i for i, needed in enumerate(ctx.needs_input_grad[2:]) if needed]
        leaves = [tensor.detach() for tensor in inputs]
        for i in wanted:
            leaves[i].requires_grad_()
        total = torch.zeros((), dtype=torch.float64, device=inputs[0].device)
        sums = [torch.zeros_like(leaf) for leaf in leaves]
        for chunk in chunks:
            with torch.set_grad_enabled(bool(wanted)):
                value = term(chunk, *leaves)
            total += value.detach()
            if wanted:
                grads = torch.autograd.grad(
                    value, [leaves[i] for i in wanted], materialize_grads=True
                )
                for i, grad in zip(wanted, grads, strict=True):
                    sums[i] += grad
        ctx.save_for_backward(*sums)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(slope * grad.to(slope.dtype) for slope in ctx.saved_tensors)
