"""Gradient caching: the gradient of a whole batch that is embedded in chunks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from surefind.distributed import ProcessGroup
from surefind.embeddings import Embeddings


def backward(
    embed: Callable[[Tensor], Embeddings],
    inputs: Tensor,
    loss: Callable[[Embeddings], Tensor],
    *,
    chunk: int,
    group: ProcessGroup,
    module: nn.Module,
) -> tuple[Tensor, Embeddings]:
    """Add the gradient of loss(embed(batch)) to the parameters; return the loss and embeddings.

    `inputs` are this process's share of the batch, embedded by `module`. If they are more than
    one chunk, or there are several processes, the batch is first embedded without a graph; then
    each chunk is embedded again to backpropagate its rows of the gradient. Memory is that of one
    chunk, and the gradient is the same.
    """
    if group.size == 1 and (chunk == 0 or len(inputs) <= chunk):
        embeddings = embed(inputs)
        value = loss(embeddings)
        value.backward()
        return value.detach(), embeddings.detach()
    chunks = inputs.split(chunk or max(1, len(inputs)))
    device = next(module.parameters()).device
    rng_states, parts = [], []
    with torch.no_grad(), _frozen_statistics(module):
        for piece in chunks:
            rng_states.append(_rng_states(device))
            parts.append(embed(piece))
    ours = type(parts[0]).cat(parts)
    everyone = group.gather_embeddings(ours)
    mean, spread = (t.detach().requires_grad_() for t in (everyone.mean, everyone.spread))
    value = loss(everyone.replace(mean, spread))
    slopes = torch.autograd.grad(value, (mean, spread), materialize_grads=True, allow_unused=True)
    first = sum(group.gather(len(ours))[: group.rank])
    after = _rng_states(device)
    for piece, states in zip(chunks, rng_states, strict=True):
        _set_rng_states(device, states)  # so that the second pass uses the same dropout mask
        again = embed(piece)
        rows = slice(first, first + len(piece))
        pairs = ((again.mean, slopes[0][rows]), (again.spread, slopes[1][rows]))
        wanted = [(output, slope) for output, slope in pairs if output.requires_grad]
        torch.autograd.backward([output for output, _ in wanted], [slope for _, slope in wanted])
        first += len(piece)
    _set_rng_states(device, after)
    return value.detach(), everyone.detach()


def in_pieces(embed: Callable[[Tensor], Embeddings], size: int) -> Callable[[Tensor], Embeddings]:
    """Return `embed` for batches of any size, of which it gets so many rows at a time; their graphs are kept."""

    def embed_all(inputs: Tensor) -> Embeddings:
        parts = [embed(piece) for piece in inputs.split(size)]
        return type(parts[0]).cat(parts)

    return embed_all


def _rng_states(device: torch.device) -> tuple[Tensor, ...]:
    """States of the CPU's generator and, on another device, of its own."""
    own = () if device.type == "cpu" else (torch.get_device_module(device).get_rng_state(device),)
    return torch.get_rng_state(), *own


def _set_rng_states(device: torch.device, states: tuple[Tensor, ...]) -> None:
    torch.set_rng_state(states[0])
    for own in states[1:]:
        torch.get_device_module(device).set_rng_state(own, device)


@contextmanager
def _frozen_statistics(module: nn.Module) -> Iterator[None]:
    """Do not update the running statistics of batch norm."""
    norms = [part for part in module.modules() if isinstance(part, _BatchNorm)]
    tracked = [norm.track_running_stats for norm in norms]
    try:
        for norm in norms:
            norm.track_running_stats = norm.track_running_stats and not norm.training
        yield
    finally:
        for norm, before in zip(norms, tracked, strict=True):
            norm.track_running_stats = before
